"""The file of an edge: what its agent needs to know, read from TOML, and the agent that it makes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.aggregates.registry import register_aggregates
from headrace.cli.job_file import INPUT, Key, Misfit, checked, duration, one_of, read_document, section, text
from headrace.cli.jobs import existing, from_here, located, source_of
from headrace.cli.scripts import check_report, read_functions, read_script
from headrace.edge.agent import Agent
from headrace.edge.agent_progress import Mode, Pace
from headrace.edge.edge_state import Known
from headrace.edge.file_source import FileSource, RowSource, Tell
from headrace.edge.sender import exchange_at
from headrace.edge.socket_sources import ENCODINGS, ChannelSource, Connections, Datagrams, StandardInput
from headrace.edge.spool import Spool
from headrace.inputs import Source
from headrace.inputs.text_file import read_text
from headrace.model.errors import HeadraceError, UsageError, nearest
from headrace.model.schema import Catalog, Stream
from headrace.model.time import SECOND_US, parse_duration
from headrace.wire.exchange import Exchange
from headrace.wire.frames import is_name
from headrace.wire.tokens import read_token

UNITS = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
SIZE = re.compile(r"([1-9][0-9]{0,11}) ?([KMG]B|)")
ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})")
URL = ("http://", "https://")


def name(value: Any) -> str:
    if not is_name(value):
        raise Misfit("a name of letters, digits, '_', '.' and '-'")
    return str(value)


def size(value: Any) -> int:
    """In bytes."""
    found = SIZE.fullmatch(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    if found is None:
        raise Misfit("a size such as '4 MB': a whole number of KB, MB, GB (of 1,024 each), or of bytes without a unit")
    return int(found[1]) * UNITS[found[2]]


def memory(value: Any) -> int:
    """In bytes, of those that this machine has."""
    found, most = size(value), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if found > most:
        raise Misfit(f"within the {most >> 20:,} MB of this machine")
    return found


def seconds(value: Any) -> float:
    return parse_duration(duration(value)) / SECOND_US


def address(value: Any) -> tuple[str, int]:
    found = ADDRESS.fullmatch(text(value))
    if found is None or int(found["port"]) > 65_535:
        raise Misfit("an address such as '127.0.0.1:9000' or '[::1]:9000'")
    return found["host"].strip("[]"), int(found["port"])


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Misfit("true or false")
    return value


AGENT: Mapping[str, Key] = {
    "edge": Key(name, True),
    "schema": Key(text, True),
    "stream": Key(text, True),
    "functions": Key(text),
    "state": Key(text, True),
    "memory": Key(memory),
    "source": Key(section, True),
    "ship": Key(section, True),
}
ENCODING: Mapping[str, Key] = {"encoding": Key(one_of(*ENCODINGS))}
SOCKET: Mapping[str, Key] = {"address": Key(address, True), **ENCODING}
TCP: Mapping[str, Key] = {**SOCKET, "idle": Key(seconds)}
SOURCES: Mapping[str, Mapping[str, Key]] = {"files": INPUT, "udp": SOCKET, "tcp": TCP, "stdin": ENCODING}
"""Of each kind of source the keys beside `kind`."""
KIND: Mapping[str, Key] = {"kind": Key(one_of(*SOURCES), True)}
SHIP: Mapping[str, Key] = {
    "to": Key(text, True),
    "token_file": Key(text),
    "allow_plain": Key(boolean),
    "every": Key(seconds),
    "heartbeat": Key(seconds),
    "poll": Key(seconds),
    "patience": Key(seconds),
    "spool_bytes": Key(size),
}
PACE = {
    "every": "every_s",
    "heartbeat": "heartbeat_s",
    "poll": "poll_s",
    "patience": "patience_s",
    "spool_bytes": "spool_bytes",
    "memory": "memory_bytes",
}
"""Which keys say how often things are done, and how much may wait."""
CHANNELS: Mapping[str, Callable[..., ChannelSource]] = {"udp": Datagrams, "tcp": Connections, "stdin": StandardInput}


@dataclass(frozen=True, slots=True)
class AgentFile:
    """All paths are absolute. `channel` are the arguments of a source that is no directory."""

    file: Path
    edge: str
    schema: Path
    stream: str
    state: Path
    to: Path | str
    kind: str
    files: Source | None = None
    channel: Mapping[str, Any] = field(default_factory=dict)
    functions: Path | None = None
    token: str | None = None
    allow_plain: bool = False
    pace: Pace = field(default_factory=Pace)


# From the file


def read_agent_file(file: Path) -> AgentFile:
    """Paths are relative to the folder of the file."""
    document = checked(file, read_document(file), AGENT)
    folder = file.absolute().parent
    source = document["source"]
    kind = checked(file, {key: source[key] for key in source if key == "kind"}, KIND, "[source]")["kind"]
    told = {key: value for key, value in source.items() if key != "kind"}
    values = checked(file, told, SOURCES[kind], f"[source] of kind {kind}")
    ship = checked(file, document["ship"], SHIP, "[ship]")
    functions, token_file = document.get("functions"), ship.get("token_file")
    places = {**{key: ship.get(key) for key in PACE}, "memory": document.get("memory")}
    pace = {PACE[key]: value for key, value in places.items() if value is not None}
    return AgentFile(
        file=file,
        edge=document["edge"],
        schema=existing(file, folder / document["schema"], "schema"),
        stream=document["stream"],
        state=located(folder, document["state"]),
        to=ship["to"] if ship["to"].startswith(URL) else located(folder, ship["to"]),
        kind=kind,
        files=source_of(file, told, "[source]") if kind == "files" else None,
        channel={} if kind == "files" else {"encoding": "json", **values_of_channel(values)},
        functions=None if functions is None else existing(file, folder / functions, "functions"),
        token=None if token_file is None else read_token(existing(file, folder / token_file, "token_file")),
        allow_plain=ship.get("allow_plain", False),
        pace=Pace(**pace),
    )


def values_of_channel(values: Mapping[str, Any]) -> dict[str, Any]:
    """By the names of its arguments, which have their unit."""
    return {"idle_s" if key == "idle" else key: value for key, value in values.items()}


# What it makes


def catalog_of(told: AgentFile) -> tuple[Catalog, Stream]:
    """The catalog, and the stream that the edge reads."""
    report: list[HeadraceError] = []
    functions = read_functions(None if told.functions is None else str(told.functions))
    script = read_script(read_text(str(told.schema)), functions, report, file=from_here(told.schema))
    check_report(report)
    stream = script.catalog.stream(told.stream)
    if stream is None:
        names = [each.name for each in script.catalog.streams]
        hint = nearest(told.stream, names) or f"it declares {', '.join(names) or 'none'}"
        raise UsageError("job", f"{told.file}: {told.schema.name} declares no stream '{told.stream}'", hint=hint)
    register_aggregates(script.catalog.aggregates)
    return script.catalog, stream


def source_for(told: AgentFile, stream: Stream, known: Known, tell: Tell) -> RowSource:
    if told.files is not None:
        return FileSource(told.files, stream, known.files, known.reading, tell)
    return CHANNELS[told.kind](stream, **told.channel)


def agent_of(told: AgentFile, mode: Mode, tell: Tell) -> Agent:
    """An agent that has not begun."""
    catalog, stream = catalog_of(told)
    if mode is not Mode.LIVE and told.kind in ("udp", "tcp"):
        problem = f"{told.file}: a source of kind {told.kind} has no end"
        raise UsageError("endless", problem, hint="run without --once and --bounded; Ctrl-C stops it")
    if told.files is not None and not Path(told.files.path).is_dir():
        problem = f"{told.file}, [source]: 'path' names {told.files.path}, and there is no such directory"
        raise UsageError("job", problem, hint="make it, or correct the path; it is relative to the agent file")

    def connect() -> Exchange:
        return exchange_at(told.to, stream.name, told.token, allow_plain=told.allow_plain)

    spool = Spool(told.state, told.edge, stream.name)
    try:
        source = source_for(told, stream, spool.known, tell)
        return Agent(catalog, stream, spool, source, connect, mode=mode, pace=told.pace, tell=tell)
    except BaseException:
        spool.close()
        raise
