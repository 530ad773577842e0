"""A job: what a run needs to know, read from a TOML file, and the catalog, the queries and the engine it makes."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from headrace.cli.job_file import (
    EDGES,
    ENGINE,
    INPUT,
    JOB,
    QUOTAS,
    SINK,
    STREAM,
    checked,
    read_document,
    section,
    settings_of,
)
from headrace.cli.job_file import value_of as checked_value
from headrace.cli.scripts import check_report, read_functions, read_script
from headrace.engine.edge_inbox import kept_sample
from headrace.engine.registry import Quotas
from headrace.inputs import BadFile, Source, cut, list_files, read, read_table
from headrace.inputs.text_file import read_text
from headrace.model.arrow import conform
from headrace.model.errors import DataError, HeadraceError, UsageError, nearest, printable
from headrace.model.schema import Catalog, Stream, Table
from headrace.sql import Script, format_query
from headrace.storage.directory import check_free
from headrace.storage.disk import check_writable, local_path
from headrace.wire.tokens import Tokens, read_tokens

if TYPE_CHECKING:
    from headrace.spark.engine import Engine

LOG = logging.getLogger(__name__)
SUFFIX = ".toml"
MASTER = "local[*]"
TRIGGER = "1 s"


class EdgeInput(NamedTuple):
    """The edges that send frames of a stream, by their names, and the directory that they come to, unless that is
    beside the state.
    """

    names: tuple[str, ...]
    frames: Path | None
    push: str


@dataclass(frozen=True, slots=True)
class Job:
    """A job file. All paths are absolute; streams and tables are by their names in small letters."""

    file: Path
    schema: Path
    queries: tuple[Path, ...]
    state: Path
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


# From the file


def read_job(file: Path) -> Job:
    """The job that a file describes; paths in it are relative to its folder."""
    document = checked(file, read_document(file), JOB)
    folder = file.absolute().parent
    functions = document.get("functions")
    streams = {name: stream_section(file, value, f"[streams.{name}]") for name, value in document["streams"].items()}
    edges = checked(file, document.get("edges", {}), EDGES, "[edges]")
    inputs = {name.lower(): edges_of(folder, found) for name, found in streams.items() if "edges" in found}
    return Job(
        file=file,
        schema=existing(file, folder / document["schema"], "schema"),
        queries=tuple(existing(file, folder / each, "queries") for each in document["queries"]),
        functions=None if functions is None else existing(file, folder / functions, "functions"),
        state=located(folder, document["state"]),
        master=document.get("master", MASTER),
        trigger=document.get("trigger", TRIGGER),
        streams={name.lower(): source_from(file, found, f"[streams.{name}]") for name, found in streams.items()},
        edges=inputs,
        listen=edges.get("listen"),
        hosts=edges.get("hosts", ()),
        tokens=tokens_in(file, edges, [edge for sent in inputs.values() for edge in sent.names]),
        tables=sources(file, document.get("tables", {}), "tables"),
        sinks=tuple(sink_of(file, each) for each in document.get("sinks", [])),
        engine=checked(file, document.get("engine", {}), ENGINE, "[engine]"),
        quotas=Quotas(**checked(file, document.get("quotas", {}), QUOTAS, "[quotas]")),
        spark=settings_of(file, document.get("spark", {}), "[spark]"),
    )


def tokens_in(file: Path, document: Mapping[str, Any], edges: Iterable[str]) -> Tokens | None:
    """The tokens of the edges that send here, if a section names the file with them."""
    if "token_file" not in document:
        return None
    path = existing(file, file.absolute().parent / document["token_file"], "token_file")
    return read_tokens(path, tuple(dict.fromkeys(edges)))


def located(folder: Path, text: str) -> Path:
    """A path relative to the folder. One with a scheme stands for itself, if it is of this file system at all."""
    return local_path(text) if ":/" in text else local_path(folder / text)


def existing(file: Path, path: Path, key: str) -> Path:
    if not path.is_file():
        raise UsageError("job", f"{file}: '{key}' names {path}, and there is no such file")
    return path


def sources(file: Path, document: Mapping[str, Any], key: str) -> dict[str, Source]:
    return {name.lower(): source_of(file, value, f"[{key}.{name}]") for name, value in document.items()}


def stream_section(file: Path, value: Any, where: str) -> dict[str, Any]:
    found = checked(file, checked_value(str(file), where, value, section), STREAM, where)
    if "path" not in found and "edges" not in found:
        raise UsageError("job", f"{file}, {where}: 'path' is missing", hint="or name the edges that send its rows")
    for key in ("frames", "push"):
        if key in found and "edges" not in found:
            raise UsageError("job", f"{file}, {where}: '{key}' is of no use without 'edges'")
    return found


def edges_of(folder: Path, found: Mapping[str, Any]) -> EdgeInput:
    frames = located(folder, found["frames"]) if "frames" in found else None
    return EdgeInput(found["edges"], frames, found.get("push", "partials"))


def exchanges_of(job: Job, catalog: Catalog) -> dict[Stream, Path]:
    """The directories that frames of streams come to."""
    found = {stream: job.edges.get(stream.name.lower()) for stream in catalog.streams}
    return {each: sent.frames or job.state / each.name / "exchange" for each, sent in found.items() if sent is not None}


def source_from(file: Path, found: Mapping[str, Any], where: str) -> Source | None:
    return as_source(file, found, where) if "path" in found else None


def source_of(file: Path, value: Any, where: str) -> Source:
    return as_source(file, checked(file, checked_value(str(file), where, value, section), INPUT, where), where)


def as_source(file: Path, found: Mapping[str, Any], where: str) -> Source:
    options = settings_of(file, found.get("options", {}), f"{where} options")
    try:
        path = located(file.absolute().parent, found["path"])
        return Source(str(path), found.get("format", "parquet"), options)
    except UsageError as problem:
        raise UsageError("job", f"{file}, {where}: {problem.message}", hint=problem.hint) from None


def sink_of(file: Path, document: Mapping[str, Any]) -> dict[str, Any]:
    found = checked(file, document, SINK, "[[sinks]]")
    is_console = found["kind"] == "console"
    if not is_console and "path" not in found:
        raise UsageError("job", f"{file}, [[sinks]]: 'path' is missing: where the {found['kind']} files go")
    stray = "path" if is_console else "rows"
    if stray in found:
        raise UsageError("job", f"{file}, [[sinks]]: a {found['kind']} sink has no '{stray}'")
    if not is_console:
        found["path"] = str(located(file.absolute().parent, found["path"]))
    return found


# What it makes


def catalog_of(job: Job) -> Catalog:
    """Streams, tables and functions; each stream and table has its place, and each place is of one that is declared."""
    report: list[HeadraceError] = []
    functions = read_functions(None if job.functions is None else str(job.functions))
    script = read_script(read_text(str(job.schema)), functions, report, file=from_here(job.schema))
    check_report(report)
    if script.queries:
        raise UsageError("job", f"{job.schema} has queries", hint="'queries' names the files that hold them")
    catalog = script.catalog
    if not catalog.streams:
        raise UsageError("job", f"{job.schema} declares no stream", hint="CREATE STREAM name (...) EVENT TIME ...")
    check_places(job, "streams", job.streams, [stream.name for stream in catalog.streams])
    check_places(job, "tables", job.tables, [table.name for table in catalog.tables])
    return catalog


def check_places(job: Job, key: str, places: Mapping[str, Source | None], declared: Iterable[str]) -> None:
    names = list(declared)
    for name in places:
        if name not in {each.lower() for each in names}:
            raise UsageError(
                "job",
                f"{job.file}, [{key}.{name}]: {job.schema.name} does not declare it",
                hint=nearest(name, names),
            )
    for name in names:
        if name.lower() not in places:
            hint = f"add [{key}.{name}] with path = '...'"
            raise UsageError("job", f"{job.file} does not say where the rows of {name} are", hint=hint)


def from_here(path: Path) -> str:
    """As one would write it where one stands, if that is shorter."""
    below = os.path.relpath(path)
    return str(path) if below.startswith(os.pardir) else below


def script_of(job: Job, warn: Callable[[str], None] = lambda text: None) -> Script:
    """The catalog and all queries of the job's files; every mistake is told, with its file."""
    catalog = catalog_of(job)
    found = Script(catalog, ())
    for path in job.queries:
        report: list[HeadraceError] = []
        readable = {named.name: named.query for named in found.queries}
        script = read_script(read_text(str(path)), catalog, report, readable, file=from_here(path))
        check_report(report)
        if not script.queries:
            warn(f"there is no query in {from_here(path)}")
        if len(script.catalog.relation_names()) > len(catalog.relation_names()):
            raise UsageError("job", f"{path} declares streams or tables", hint=f"{job.schema} is the place for them")
        known = {named.name.lower() for named in found.queries}
        for named in script.queries:
            if named.name.lower() in known:
                raise UsageError("job", f"{path}: there is a query '{named.name}' in another file already")
        catalog = script.catalog
        found = Script(catalog, (*found.queries, *script.queries))
    return found


def engine_of(job: Job, spark: Any, *, take_over: bool = False, reset_results: bool = False) -> Engine:
    """An engine with the job's streams, tables, queries and sinks, on a session."""
    from headrace.spark.engine import Engine

    script = script_of(job)
    options = {"take_over": take_over, "reset_results": reset_results, **job.engine}
    engine = Engine(spark, job.state, quotas=job.quotas, **options)
    engine.functions((*script.catalog.functions, *script.catalog.aggregates))
    engine.declare(read_text(str(job.schema)))
    for stream in script.catalog.streams:
        source, sent = job.streams[stream.name.lower()], job.edges.get(stream.name.lower())
        engine.stream(
            stream.name,
            None if source is None else source.path,
            format="parquet" if source is None else source.format,
            options=None if source is None else source.options,
            edges=sent.names if sent else (),
            frames=sent.frames if sent else None,
            push=sent.push if sent else "partials",
        )
    for table in script.catalog.tables:
        source = job.tables[table.name.lower()]
        engine.table(table.name, source.path, format=source.format, options=source.options)
    for named in script.queries:
        engine.add(named.name, format_query(named.query))
    for sink in job.sinks:
        engine.sink(**sink)
    return engine


# Before an engine starts


def check_inputs(job: Job, catalog: Catalog) -> None:
    """Whether what the job reads is there at all."""
    for stream in catalog.streams:
        source = job.streams[stream.name.lower()]
        if source is not None:
            path = Path(source.path)
            check_path(job, f"[streams.{stream.name}]", path, path.is_dir(), "directory")
    for table in catalog.tables:
        path = Path(job.tables[table.name.lower()].path)
        check_path(job, f"[tables.{table.name}]", path, path.exists(), "file or directory")


def check_path(job: Job, section: str, path: Path, is_there: bool, kind: str) -> None:
    if not is_there:
        problem = f"{job.file}, {section}: 'path' names {path}, and there is no such {kind}"
        raise UsageError("job", problem, hint="make it, or correct the path; it is relative to the job file")


def check_outputs(job: Job, catalog: Catalog, *, take_over: bool = False) -> None:
    """Whether nobody else owns the state, and what the job writes can be written."""
    if not take_over:
        for stream in catalog.streams:
            check_free(job.state / stream.name)
    for folder in (job.state, *(Path(sink["path"]) for sink in job.sinks if "path" in sink)):
        check_writable(folder)


# Rows without an engine


def sent_rows(job: Job, stream: Stream) -> pa.Table:
    """What edges sent before they had a plan."""
    rows = kept_sample(job.state / stream.name)
    if rows is None:
        hint = "headrace run JOB gets some from them; or give a script and --data"
        raise DataError("no-data", f"the rows of {stream.name} are at its edges, and none has sent any yet", hint=hint)
    return rows


def some_rows(job: Job, relation: Stream | Table, most: int) -> pa.Table:
    """All rows of a table; of a stream the first ones, file by file, about as many as asked. Bad files are left out if
    the engine would leave them out.
    """
    if isinstance(relation, Table):
        return read_table(job.tables[relation.name.lower()], relation)
    source = job.streams[relation.name.lower()]
    if source is None:
        return sent_rows(job, relation)
    columns = [column.name for column in relation.columns]
    found = [conform(pa.table({}), relation.columns)]
    count = 0
    for file in list_files(source):
        try:
            for unit in cut(source, file, relation):
                for rows in read(source, unit, relation, columns):
                    found.append(rows.table)
                    count += rows.table.num_rows
                    if count >= most:
                        return pa.concat_tables(found)
        except BadFile as problem:
            if job.engine.get("on_bad_file") != "quarantine":
                raise
            LOG.warning("left out: %s: %s", printable(file.path), printable(problem.reason))
    if not count:
        hint = "a plan is made for the data that there are: it needs some rows"
        raise DataError("no-data", f"there are no rows of {relation.name} in {source.path}", hint=hint)
    return pa.concat_tables(found)
