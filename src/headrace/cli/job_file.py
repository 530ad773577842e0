"""A job file: the keys of its sections, and the job that it describes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from headrace.cli import checks
from headrace.cli.documents import (
    Key,
    check_section,
    check_value,
    find_file,
    find_optional_file,
    locate,
    locate_state,
    read_document,
    read_settings,
)
from headrace.engine.edge_inbox import PUSHES
from headrace.engine.quotas import Quotas
from headrace.inputs import Source
from headrace.model.errors import UsageError
from headrace.wire.tokens import Tokens, read_tokens

MASTER = "local[*]"
TRIGGER = "1 s"
JOB: Mapping[str, Key] = {
    "schema": Key(checks.text, True),
    "queries": Key(checks.texts, True),
    "functions": Key(checks.text),
    "state": Key(checks.text, True),
    "master": Key(checks.text),
    "trigger": Key(checks.duration),
    "streams": Key(checks.section, True),
    "tables": Key(checks.section),
    "sinks": Key(checks.sections),
    "edges": Key(checks.section),
    "engine": Key(checks.section),
    "quotas": Key(checks.section),
    "spark": Key(checks.section),
}
INPUT: Mapping[str, Key] = {"path": Key(checks.text, True), "format": Key(checks.text), "options": Key(checks.section)}
STREAM: Mapping[str, Key] = {
    **INPUT,
    "path": Key(checks.text),
    "edges": Key(checks.texts),
    "frames": Key(checks.text),
    "push": Key(checks.one_of(*PUSHES)),
}
EDGES: Mapping[str, Key] = {"listen": Key(checks.text), "token_file": Key(checks.text), "hosts": Key(checks.texts)}
SINK: Mapping[str, Key] = {
    "kind": Key(checks.one_of("parquet", "json", "console"), True),
    "path": Key(checks.text),
    "rows": Key(checks.at_least(1)),
}
ENGINE: Mapping[str, Key] = {
    "reducers": Key(checks.at_least(1)),
    "on_bad_file": Key(checks.one_of("stop", "quarantine")),
    "max_empty": Key(checks.at_least(0)),
    "max_result_rows": Key(checks.at_least(1)),
    "retain": Key(checks.duration),
    "results": Key(checks.duration),
    "step_bytes": Key(checks.at_least(1)),
}
QUOTAS: Mapping[str, Key] = {
    "queries": Key(checks.at_least(1)),
    "state_bytes": Key(checks.at_least(1)),
    "groups": Key(checks.at_least(1)),
    "seconds": Key(checks.at_least(1)),
}


class EdgeInput(NamedTuple):
    """The edges of a stream: their names, what they send, and the directory of frames if it is not below the state."""

    names: tuple[str, ...]
    frames: Path | None
    push: str


@dataclass(frozen=True, slots=True)
class Job:
    """A job file. All paths are absolute; streams and tables are by their names in small letters."""

    file: Path
    schema: Path
    queries: tuple[Path, ...]
    state: str
    """A path, or the URL of an object store."""
    functions: Path | None = None
    master: str = MASTER
    trigger: str = TRIGGER
    streams: Mapping[str, Source | None] = field(default_factory=dict)
    """A stream whose rows are all at edges has no source."""
    edges: Mapping[str, EdgeInput] = field(default_factory=dict)
    listen: str | None = None
    tokens: Tokens | None = None
    hosts: tuple[str, ...] = ()
    tables: Mapping[str, Source] = field(default_factory=dict)
    sinks: tuple[Mapping[str, Any], ...] = ()
    engine: Mapping[str, Any] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=Quotas)
    spark: Mapping[str, str] = field(default_factory=dict)


def read_job(file: Path) -> Job:
    """Read a job file. Paths in it are relative to its folder."""
    document = check_section(file, read_document(file), JOB)
    streams = {name: check_stream(file, value, f"[streams.{name}]") for name, value in document["streams"].items()}
    edges = check_section(file, document.get("edges", {}), EDGES, "[edges]")
    inputs = {name.lower(): make_edge_input(file, stream) for name, stream in streams.items() if "edges" in stream}
    return Job(
        file=file,
        schema=find_file(file, document, "schema"),
        queries=tuple(find_file(file, {"queries": name}, "queries") for name in document["queries"]),
        functions=find_optional_file(file, document, "functions"),
        state=locate_state(file, document["state"]),
        master=document.get("master", MASTER),
        trigger=document.get("trigger", TRIGGER),
        streams={
            name.lower(): make_source(file, stream, f"[streams.{name}]") if "path" in stream else None
            for name, stream in streams.items()
        },
        edges=inputs,
        listen=edges.get("listen"),
        hosts=edges.get("hosts", ()),
        tokens=read_edge_tokens(file, edges, [edge for sent in inputs.values() for edge in sent.names]),
        tables={
            name.lower(): read_source(file, value, f"[tables.{name}]")
            for name, value in document.get("tables", {}).items()
        },
        sinks=tuple(check_sink(file, value) for value in document.get("sinks", [])),
        engine=check_section(file, document.get("engine", {}), ENGINE, "[engine]"),
        quotas=Quotas(**check_section(file, document.get("quotas", {}), QUOTAS, "[quotas]")),
        spark=read_settings(file, document.get("spark", {}), "[spark]"),
    )


def read_edge_tokens(file: Path, document: Mapping[str, Any], edges: Iterable[str]) -> Tokens | None:
    """Return the tokens of the edges that send here, if a section names a file with them."""
    path = find_optional_file(file, document, "token_file")
    return None if path is None else read_tokens(path, tuple(dict.fromkeys(edges)))


def check_stream(file: Path, value: Any, where: str) -> dict[str, Any]:
    """Return the values of a stream's section. It names a path, edges, or both."""
    stream = check_section(file, check_value(str(file), where, value, checks.section), STREAM, where)
    if "path" not in stream and "edges" not in stream:
        raise UsageError("job", f"{file}, {where}: 'path' is missing", hint="or name the edges that send its rows")
    for key in ("frames", "push"):
        if key in stream and "edges" not in stream:
            raise UsageError("job", f"{file}, {where}: '{key}' is of no use without 'edges'")
    return stream


def make_edge_input(file: Path, stream: Mapping[str, Any]) -> EdgeInput:
    frames = locate(file, stream["frames"]) if "frames" in stream else None
    return EdgeInput(stream["edges"], frames, stream.get("push", "partials"))


def read_source(file: Path, value: Any, where: str) -> Source:
    """Check a section that names files, and return them as a source."""
    document = check_value(str(file), where, value, checks.section)
    return make_source(file, check_section(file, document, INPUT, where), where)


def make_source(file: Path, values: Mapping[str, Any], where: str) -> Source:
    options = read_settings(file, values.get("options", {}), f"{where} options")
    try:
        return Source(str(locate(file, values["path"])), values.get("format", "parquet"), options)
    except UsageError as problem:
        raise UsageError("job", f"{file}, {where}: {problem.message}", hint=problem.hint) from None


def check_sink(file: Path, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a sink. One of files has a path, one on the console may have a number of rows."""
    sink = check_section(file, document, SINK, "[[sinks]]")
    is_console = sink["kind"] == "console"
    if not is_console and "path" not in sink:
        raise UsageError("job", f"{file}, [[sinks]]: 'path' is missing: where the {sink['kind']} files go")
    stray = "path" if is_console else "rows"
    if stray in sink:
        raise UsageError("job", f"{file}, [[sinks]]: a {sink['kind']} sink has no '{stray}'")
    return sink if is_console else sink | {"path": str(locate(file, sink["path"]))}
