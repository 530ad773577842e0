"""The file of an edge: what its agent needs to know, read from TOML, and the agent that it makes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from headrace.aggregates.registry import register_aggregates
from headrace.cli import checks
from headrace.cli.checks import Misfit
from headrace.cli.documents import SHIP as DESTINATION
from headrace.cli.documents import (
    Destination,
    Key,
    check_section,
    find_file,
    find_optional_file,
    locate,
    make_destination,
    read_document,
)
from headrace.cli.job_file import INPUT, make_source
from headrace.cli.scripts import find_stream, read_schema
from headrace.edge.agent import Agent
from headrace.edge.agent_progress import Mode, Pace
from headrace.edge.edge_state import Known
from headrace.edge.file_source import FileSource, Report, RowSource
from headrace.edge.socket_sources import ENCODINGS, ChannelSource, Connections, Datagrams, StandardInput
from headrace.edge.spool import Spool
from headrace.inputs import Source
from headrace.model.errors import UsageError
from headrace.model.schema import Catalog, Stream

UNITS = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
SIZE = re.compile(r"([1-9][0-9]{0,11}) ?([KMG]B|)")
ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})")


def size(value: Any) -> int:
    """Return a size in bytes."""
    match = SIZE.fullmatch(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    if match is None:
        raise Misfit("a size such as '4 MB': a whole number of KB, MB, GB (of 1,024 each), or of bytes without a unit")
    return int(match[1]) * UNITS[match[2]]


def memory(value: Any) -> int:
    """Return a size in bytes, at most what this machine has."""
    memory_bytes, max_bytes = size(value), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if memory_bytes > max_bytes:
        raise Misfit(f"within the {max_bytes >> 20:,} MB of this machine")
    return memory_bytes


def address(value: Any) -> tuple[str, int]:
    match = ADDRESS.fullmatch(checks.text(value))
    if match is None or int(match["port"]) > 65_535:
        raise Misfit("an address such as '127.0.0.1:9000' or '[::1]:9000'")
    return match["host"].strip("[]"), int(match["port"])


AGENT: Mapping[str, Key] = {
    "edge": Key(checks.name, True),
    "schema": Key(checks.text, True),
    "stream": Key(checks.text, True),
    "functions": Key(checks.text),
    "state": Key(checks.text, True),
    "memory": Key(memory),
    "source": Key(checks.section, True),
    "ship": Key(checks.section, True),
}
ENCODING: Mapping[str, Key] = {"encoding": Key(checks.one_of(*ENCODINGS))}
SOCKET: Mapping[str, Key] = {"address": Key(address, True), **ENCODING}
TCP: Mapping[str, Key] = {**SOCKET, "idle": Key(checks.seconds)}
SOURCES: Mapping[str, Mapping[str, Key]] = {"files": INPUT, "udp": SOCKET, "tcp": TCP, "stdin": ENCODING}
"""The keys of each kind of source, beside `kind`."""
KIND: Mapping[str, Key] = {"kind": Key(checks.one_of(*SOURCES), True)}
SHIP: Mapping[str, Key] = {
    **DESTINATION,
    "heartbeat": Key(checks.seconds),
    "patience": Key(checks.seconds),
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
"""The fields of `Pace` by the keys that set them."""
CHANNELS: Mapping[str, Callable[..., ChannelSource]] = {"udp": Datagrams, "tcp": Connections, "stdin": StandardInput}


@dataclass(frozen=True, slots=True)
class AgentFile:
    """What an agent file says, with absolute paths. `channel` holds the arguments of a source that is no directory."""

    file: Path
    edge: str
    schema: Path
    stream: str
    state: Path
    destination: Destination
    kind: str
    files: Source | None = None
    channel: Mapping[str, Any] = field(default_factory=dict)
    functions: Path | None = None
    pace: Pace = field(default_factory=Pace)


# From the file


def read_agent_file(file: Path) -> AgentFile:
    """Read an agent file. Paths in it are relative to its folder."""
    document = check_section(file, read_document(file), AGENT)
    source = document["source"]
    kind = check_section(file, {key: source[key] for key in source if key == "kind"}, KIND, "[source]")["kind"]
    options = {key: value for key, value in source.items() if key != "kind"}
    values = check_section(file, options, SOURCES[kind], f"[source] of kind {kind}")
    ship = check_section(file, document["ship"], SHIP, "[ship]")
    pace = {PACE[key]: value for key, value in {**ship, **document}.items() if key in PACE}
    return AgentFile(
        file=file,
        edge=document["edge"],
        schema=find_file(file, document, "schema"),
        stream=document["stream"],
        state=locate(file, document["state"]),
        destination=make_destination(file, ship),
        kind=kind,
        files=make_source(file, values, "[source]") if kind == "files" else None,
        channel={"encoding": "json"} | {"idle_s" if key == "idle" else key: value for key, value in values.items()},
        functions=find_optional_file(file, document, "functions"),
        pace=Pace(**pace),
    )


# What it makes


def load_stream(agent: AgentFile) -> tuple[Catalog, Stream]:
    """Return the catalog, and the stream that the edge reads. Aggregates of users are registered."""
    catalog = read_schema(agent.schema, agent.functions).catalog
    stream = find_stream(catalog, agent.stream, agent.file, agent.schema)
    register_aggregates(catalog.aggregates)
    return catalog, stream


def open_source(agent: AgentFile, stream: Stream, known: Known, report: Report) -> RowSource:
    """Return the source of the rows, ready to read where the agent stopped."""
    if agent.files is not None:
        return FileSource(agent.files, stream, known.files, known.reading, report)
    return CHANNELS[agent.kind](stream, **agent.channel)


def build_agent(agent: AgentFile, mode: Mode, report: Report) -> Agent:
    """Return an agent that has not begun."""
    catalog, stream = load_stream(agent)
    if mode is not Mode.LIVE and agent.kind in ("udp", "tcp"):
        problem = f"{agent.file}: a source of kind {agent.kind} has no end"
        raise UsageError("endless", problem, hint="run without --once and --bounded; Ctrl-C stops it")
    if agent.files is not None and not Path(agent.files.path).is_dir():
        problem = f"{agent.file}, [source]: 'path' names {agent.files.path}, and there is no such directory"
        raise UsageError("job", problem, hint="make it, or correct the path; it is relative to the agent file")
    spool = Spool(agent.state, agent.edge, stream.name)
    try:
        source = open_source(agent, stream, spool.known, report)
        connect = partial(agent.destination.connect, stream)
        return Agent(catalog, stream, spool, source, connect, mode=mode, pace=agent.pace, report=report)
    except BaseException:
        spool.close()
        raise
