"""The file of a relay: what it needs to know, read from TOML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.aggregates.registry import register_aggregates
from headrace.cli.agent_file import URL, boolean, name, seconds
from headrace.cli.job_file import Key, Misfit, checked, duration, read_document, section, text, texts
from headrace.cli.jobs import existing, from_here, located, tokens_in
from headrace.cli.scripts import check_report, read_functions, read_script
from headrace.inputs.text_file import read_text
from headrace.model.errors import HeadraceError, UsageError, nearest
from headrace.model.schema import Stream
from headrace.model.time import parse_duration
from headrace.wire.tokens import Tokens, read_token


def names(value: Any) -> tuple[str, ...]:
    found = tuple(name(each) for each in texts(value))
    if len(set(found)) < len(found):
        raise Misfit("a list of different names")
    return found


RELAY: Mapping[str, Key] = {
    "relay": Key(name, True),
    "schema": Key(text, True),
    "streams": Key(texts, True),
    "functions": Key(text),
    "edges": Key(names, True),
    "inbox": Key(text, True),
    "state": Key(text, True),
    "idle": Key(duration),
    "listen": Key(text),
    "token_file": Key(text),
    "hosts": Key(texts),
    "ship": Key(section, True),
}
SHIP: Mapping[str, Key] = {
    "to": Key(text, True),
    "token_file": Key(text),
    "allow_plain": Key(boolean),
    "every": Key(seconds),
    "poll": Key(seconds),
}


@dataclass(frozen=True, slots=True)
class RelayFile:
    """All paths are absolute. `idle_us` is that of the stream unless told."""

    relay: str
    streams: tuple[Stream, ...]
    edges: tuple[str, ...]
    inbox: Path
    state: Path
    to: Path | str
    idle_us: int | None = None
    listen: str | None = None
    tokens: Tokens | None = None
    hosts: tuple[str, ...] = ()
    ship_token: str | None = None
    allow_plain: bool = False
    every_s: float = 1.0
    poll_s: float = 2.0

    def place_above(self, stream: Stream) -> Path | str:
        """Where its frames go: a directory has one for each stream."""
        return self.to / stream.name if isinstance(self.to, Path) else self.to


def read_relay_file(file: Path) -> RelayFile:
    """Paths are relative to the folder of the file."""
    document = checked(file, read_document(file), RELAY)
    ship = checked(file, document["ship"], SHIP, "[ship]")
    folder = file.absolute().parent
    if document["relay"] in document["edges"]:
        raise UsageError("job", f"{file}: the relay '{document['relay']}' can't be one of its own edges")
    return RelayFile(
        relay=document["relay"],
        streams=streams_of(file, document),
        edges=document["edges"],
        inbox=located(folder, document["inbox"]),
        state=located(folder, document["state"]),
        to=ship["to"] if ship["to"].startswith(URL) else located(folder, ship["to"]),
        idle_us=parse_duration(document["idle"]) if "idle" in document else None,
        listen=document.get("listen"),
        hosts=document.get("hosts", ()),
        tokens=tokens_in(file, document, document["edges"]),
        ship_token=token_in(file, ship),
        **{f"{key}_s": ship[key] for key in ("every", "poll") if key in ship},
        **{key: ship[key] for key in ("allow_plain",) if key in ship},
    )


def token_in(file: Path, document: Mapping[str, Any]) -> str | None:
    if "token_file" not in document:
        return None
    return read_token(existing(file, file.absolute().parent / document["token_file"], "token_file"))


def streams_of(file: Path, document: Mapping[str, Any]) -> tuple[Stream, ...]:
    """As the schema declares them. Aggregates of users are known from here on."""
    folder = file.absolute().parent
    schema = existing(file, folder / document["schema"], "schema")
    functions = None
    if "functions" in document:
        functions = str(existing(file, folder / document["functions"], "functions"))
    report: list[HeadraceError] = []
    catalog = read_script(read_text(str(schema)), read_functions(functions), report, file=from_here(schema)).catalog
    check_report(report)
    register_aggregates(catalog.aggregates)
    found = []
    for told in document["streams"]:
        stream = catalog.stream(told)
        if stream is None:
            declared = [each.name for each in catalog.streams]
            hint = nearest(told, declared) or f"it declares {', '.join(declared) or 'none'}"
            raise UsageError("job", f"{file}: {schema.name} declares no stream '{told}'", hint=hint)
        found.append(stream)
    return tuple(dict.fromkeys(found))
