"""A job: the catalog, the queries and the engine that its files make, and checks before it starts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from headrace.cli.job_file import Job
from headrace.cli.scripts import check_report, read_schema, read_script, shorten_path
from headrace.engine.edge_inbox import kept_sample
from headrace.inputs import BadFile, Source, cut, list_files, read, read_table
from headrace.inputs.text_file import read_text
from headrace.model.arrow import conform
from headrace.model.errors import DataError, HeadraceError, UsageError, nearest, printable
from headrace.model.schema import Catalog, Stream, Table
from headrace.sql import NamedQuery, Script
from headrace.storage.disk import check_writable, local_path
from headrace.storage.ownership import check_free
from headrace.storage.store import Store, open_store

if TYPE_CHECKING:
    from headrace.spark.engine import Engine

LOG = logging.getLogger(__name__)

# What it makes


def load_catalog(job: Job) -> Catalog:
    """Read the streams, tables and functions of a job. What is declared must have a place, and the other way round."""
    script = read_schema(job.schema, job.functions)
    if script.queries:
        raise UsageError("job", f"{job.schema} has queries", hint="'queries' names the files that hold them")
    catalog = script.catalog
    if not catalog.streams:
        raise UsageError("job", f"{job.schema} declares no stream", hint="CREATE STREAM name (...) EVENT TIME ...")
    check_places(job, "streams", job.streams, [stream.name for stream in catalog.streams])
    check_places(job, "tables", job.tables, [table.name for table in catalog.tables])
    return catalog


def check_places(job: Job, key: str, places: Mapping[str, Source | None], names: Sequence[str]) -> None:
    for name in places:
        if name not in {declared.lower() for declared in names}:
            raise UsageError(
                "job",
                f"{job.file}, [{key}.{name}]: {job.schema.name} does not declare it",
                hint=nearest(name, names),
            )
    for name in names:
        if name.lower() not in places:
            hint = f"add [{key}.{name}] with path = '...'"
            raise UsageError("job", f"{job.file} does not say where the rows of {name} are", hint=hint)


def load_script(job: Job, warn: Callable[[str], None] = lambda text: None, catalog: Catalog | None = None) -> Script:
    """Read the catalog, unless it is given, and all queries of a job. Mistakes carry their file and spot."""
    catalog = load_catalog(job) if catalog is None else catalog
    queries: dict[str, NamedQuery] = {}
    for path in job.queries:
        report: list[HeadraceError] = []
        readable = {named.name: named.query for named in queries.values()}
        script = read_script(read_text(str(path)), catalog, report, readable, file=shorten_path(path))
        check_report(report)
        if not script.queries:
            warn(f"there is no query in {shorten_path(path)}")
        if len(script.catalog.relation_names()) > len(catalog.relation_names()):
            raise UsageError("job", f"{path} declares streams or tables", hint=f"{job.schema} is the place for them")
        for named in script.queries:
            if named.name.lower() in queries:
                raise UsageError("job", f"{path}: there is a query '{named.name}' in another file already")
        catalog = script.catalog
        queries |= {named.name.lower(): named for named in script.queries}
    return Script(catalog, tuple(queries.values()))


def build_engine(
    job: Job, script: Script, spark: Any, *, take_over: bool = False, reset_results: bool = False
) -> Engine:
    """Return an engine on a session, with the sources and sinks of the job and all that its script holds."""
    from headrace.spark.engine import Engine

    options = {"take_over": take_over, "reset_results": reset_results, **job.engine}
    engine = Engine(spark, job.state, quotas=job.quotas, **options)
    engine.add_script(script)
    for stream in script.catalog.streams:
        source, sent = job.streams[stream.name.lower()], job.edges.get(stream.name.lower())
        files: dict[str, Any] = (
            {} if source is None else {"source": source.path, "format": source.format, "options": source.options}
        )
        edges: dict[str, Any] = {} if sent is None else {"edges": sent.names, "frames": sent.frames, "push": sent.push}
        engine.stream(stream.name, **files, **edges)
    for table in script.catalog.tables:
        source = job.tables[table.name.lower()]
        engine.table(table.name, source.path, format=source.format, options=source.options)
    for sink in job.sinks:
        engine.sink(**sink)
    return engine


def exchange_folders(job: Job, catalog: Catalog) -> dict[Stream, Path]:
    """Return the directories that frames of streams come to."""
    edges = {stream: job.edges[stream.name.lower()] for stream in catalog.streams if stream.name.lower() in job.edges}
    return {stream: sent.frames or local_path(f"{job.state}/{stream.name}/exchange") for stream, sent in edges.items()}


# Before an engine starts


def check_inputs(job: Job, catalog: Catalog) -> None:
    """Raise an error if something that the job reads is not there."""
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
    """Raise an error if another engine owns the state, or something that the job writes can't be written."""
    if not take_over:
        for stream in catalog.streams:
            check_free(open_store(f"{job.state}/{stream.name}"))
    check_store(open_store(job.state))
    for sink in job.sinks:
        if "path" in sink:
            check_writable(Path(sink["path"]))


def check_store(store: Store) -> None:
    """Raise an error if the state can't be written."""
    name = f"check-{uuid4().hex}"
    store.put(name, b"")
    store.delete([name])


# Rows without an engine


def read_sent_rows(job: Job, stream: Stream) -> pa.Table:
    """Return the rows that edges sent before they had a plan."""
    rows = kept_sample(open_store(f"{job.state}/{stream.name}"))
    if rows is None:
        hint = "headrace run JOB gets some from them; or give a script and --data"
        raise DataError("no-data", f"the rows of {stream.name} are at its edges, and none has sent any yet", hint=hint)
    return rows


def read_sample(job: Job, relation: Stream | Table, max_rows: int) -> pa.Table:
    """Return all rows of a table, or the first rows of a stream, about `max_rows` of them, file by file.

    Bad files are left out if the engine would leave them out.
    """
    if isinstance(relation, Table):
        return read_table(job.tables[relation.name.lower()], relation)
    source = job.streams[relation.name.lower()]
    if source is None:
        return read_sent_rows(job, relation)
    columns = [column.name for column in relation.columns]
    tables = [conform(pa.table({}), relation.columns)]
    count = 0
    for file in list_files(source):
        try:
            for unit in cut(source, file, relation):
                for rows in read(source, unit, relation, columns):
                    tables.append(rows.table)
                    count += rows.table.num_rows
                    if count >= max_rows:
                        return pa.concat_tables(tables)
        except BadFile as problem:
            if job.engine.get("on_bad_file") != "quarantine":
                raise
            LOG.warning("left out: %s: %s", printable(file.path), printable(problem.reason))
    if not count:
        hint = "a plan is made for the data that there are: it needs some rows"
        raise DataError("no-data", f"there are no rows of {relation.name} in {source.path}", hint=hint)
    return pa.concat_tables(tables)
