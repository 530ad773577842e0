"""The file of a relay: what it needs to know, read from TOML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.aggregates.registry import register_aggregates
from headrace.cli import checks
from headrace.cli.checks import Misfit
from headrace.cli.documents import (
    SHIP,
    Destination,
    Key,
    check_section,
    find_file,
    find_optional_file,
    locate,
    make_destination,
    read_document,
)
from headrace.cli.job_file import read_edge_tokens
from headrace.cli.scripts import find_stream, read_schema
from headrace.model.errors import UsageError
from headrace.model.schema import Stream
from headrace.model.time import parse_duration
from headrace.wire.tokens import Tokens

EVERY_S, POLL_S = 1.0, 2.0


def names(value: Any) -> tuple[str, ...]:
    edges = tuple(map(checks.name, checks.texts(value)))
    if len(set(edges)) < len(edges):
        raise Misfit("a list of different names")
    return edges


RELAY: Mapping[str, Key] = {
    "relay": Key(checks.name, True),
    "schema": Key(checks.text, True),
    "streams": Key(checks.texts, True),
    "functions": Key(checks.text),
    "edges": Key(names, True),
    "inbox": Key(checks.text, True),
    "state": Key(checks.text, True),
    "idle": Key(checks.duration),
    "listen": Key(checks.text),
    "token_file": Key(checks.text),
    "hosts": Key(checks.texts),
    "ship": Key(checks.section, True),
}


@dataclass(frozen=True, slots=True)
class RelayFile:
    """What a relay file says, with absolute paths. `idle_us` is by default that of the stream."""

    relay: str
    streams: tuple[Stream, ...]
    edges: tuple[str, ...]
    inbox: Path
    state: Path
    destination: Destination
    idle_us: int | None = None
    listen: str | None = None
    tokens: Tokens | None = None
    hosts: tuple[str, ...] = ()
    every_s: float = EVERY_S
    poll_s: float = POLL_S

    def destination_of(self, stream: Stream) -> Destination:
        """Return where the frames of a stream go. A directory has one below it for each stream."""
        to = self.destination.to
        return replace(self.destination, to=to / stream.name) if isinstance(to, Path) else self.destination


def read_relay_file(file: Path) -> RelayFile:
    """Read a relay file. Paths in it are relative to its folder."""
    document = check_section(file, read_document(file), RELAY)
    ship = check_section(file, document["ship"], SHIP, "[ship]")
    if document["relay"] in document["edges"]:
        raise UsageError("job", f"{file}: the relay '{document['relay']}' can't be one of its own edges")
    return RelayFile(
        relay=document["relay"],
        streams=load_streams(file, document),
        edges=document["edges"],
        inbox=locate(file, document["inbox"]),
        state=locate(file, document["state"]),
        destination=make_destination(file, ship),
        idle_us=parse_duration(document["idle"]) if "idle" in document else None,
        listen=document.get("listen"),
        hosts=document.get("hosts", ()),
        tokens=read_edge_tokens(file, document, document["edges"]),
        every_s=ship.get("every", EVERY_S),
        poll_s=ship.get("poll", POLL_S),
    )


def load_streams(file: Path, document: Mapping[str, Any]) -> tuple[Stream, ...]:
    """Return the streams as the schema declares them. Aggregates of users are registered."""
    schema = find_file(file, document, "schema")
    catalog = read_schema(schema, find_optional_file(file, document, "functions")).catalog
    register_aggregates(catalog.aggregates)
    return tuple(dict.fromkeys(find_stream(catalog, stream, file, schema) for stream in document["streams"]))
