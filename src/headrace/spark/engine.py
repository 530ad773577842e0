"""The engine as people use it from Python: streams, tables, queries and sinks, then a run that goes on by itself."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from headrace.aggregates.registry import with_functions
from headrace.aggregates.user import DeclaredAggregate
from headrace.engine.chain import Chain, Upstream, has_readers, prepare_results
from headrace.engine.context import Setting
from headrace.engine.dataframes import columns_of, telling_of, unread_columns
from headrace.engine.edge_inbox import PUSHES, Inbox
from headrace.engine.pipeline import Pipeline
from headrace.engine.registry import Quotas, check_name, check_stream_name
from headrace.engine.sinks.sinks import Sink, make_sink
from headrace.engine.step import Stepper
from headrace.engine.step_input import STEP_BYTES
from headrace.inputs import Source, list_files, read_table
from headrace.inputs.conversion import check_schema, convert_whole
from headrace.kernel.close.windows import MAX_RESULT_ROWS
from headrace.model.chaining import place_of
from headrace.model.errors import DataError, HeadraceError, UsageError
from headrace.model.naming import same_name
from headrace.model.query import Query
from headrace.model.schema import Catalog, Stream, Table, UserFunction
from headrace.model.time import parse_duration
from headrace.spark.dataframes import empty
from headrace.spark.executors import wait_for_cores
from headrace.spark.run import Run
from headrace.spark.runner import OnSpark
from headrace.spark.session import report_lacking
from headrace.sql import Script, format_query, format_stream, parse_next, parse_script
from headrace.storage.directory import Beginning, open_directory, prepare, read_format
from headrace.storage.disk import local_path
from headrace.storage.records import ResultFolder
from headrace.wire.exchange import DirectoryExchange

LOG = logging.getLogger(__name__)
PathText = str | PathLike[str]


@dataclass(frozen=True, slots=True)
class Feed:
    """Where the rows of a stream or table come from: files, or a DataFrame; and edges, which send frames to a
    directory.
    """

    source: Source | None
    frame: DataFrame | None = None
    edges: tuple[str, ...] = ()
    frames: Path | None = None
    wants_rows: bool = False


@dataclass
class Options:
    """How an engine runs: each has a sensible default."""

    reducers: int | None = None
    on_bad_file: str = "stop"
    max_empty: int = 1_000
    max_result_rows: int = MAX_RESULT_ROWS
    retain: str | None = None
    step_bytes: int = STEP_BYTES
    take_over: bool = False
    reset_results: bool = False
    quotas: Quotas = field(default_factory=Quotas)


class Engine:
    """Answers continuous queries over streams with one shared plan per stream, on Spark.

    `state` is a directory that the engine owns: it goes on from there when it is started again.
    """

    def __init__(self, spark: SparkSession, state: PathText, **options: Any) -> None:
        try:
            self.options = Options(**options)
        except TypeError as problem:
            raise UsageError("option", f"an engine does not take this option: {problem}") from None
        if self.options.on_bad_file not in ("stop", "quarantine"):
            raise UsageError("option", f"on_bad_file is stop or quarantine, not {self.options.on_bad_file}")
        self.spark = spark
        self.state = local_path(state)
        self.catalog = Catalog()
        self.feeds: dict[str, Feed] = {}
        self.unread: dict[str, pa.DataType] = {}
        self.queries: dict[str, tuple[str, Query]] = {}
        self.folders: list[ResultFolder] = []
        self.sinks: list[Sink] = []

    # What there is

    def declare(self, script: str) -> None:
        """CREATE STREAM and CREATE TABLE statements; `stream` and `table` then say where the rows come from."""
        self.catalog = parse_script(script, self.catalog).catalog

    def functions(self, functions: Iterable[UserFunction | DeclaredAggregate]) -> None:
        """Python functions and aggregates that queries may call."""
        self.catalog = with_functions(self.catalog, functions)

    def stream(
        self,
        name: str,
        source: PathText | DataFrame | None = None,
        *,
        event_time: str | None = None,
        lateness: str = "0 s",
        format: str = "parquet",
        options: Mapping[str, str] | None = None,
        edges: Iterable[str] = (),
        frames: PathText | None = None,
        push: str = "partials",
        **settings: Any,
    ) -> None:
        """Rows of a directory of files, or of a DataFrame, streaming or not; and what `edges`, by their names, send to
        the directory `frames`, by default one beside the state: partials, or with push="rows" rows as they are.

        A stream that is not declared is declared here, from the columns that it has: `event_time` is the column that
        tells the time of a row, and rows may come `lateness` behind the highest time seen.
        """
        names = tuple(edges)
        if source is None and not names:
            raise UsageError("stream", f"say where the rows of {name} come from: a source, or edges=[...]")
        if push not in PUSHES:
            raise UsageError("push", f"edges send {' or '.join(PUSHES)}, not {push}")
        exchange = local_path(frames) if frames is not None else self.state / name / "exchange"
        found = feed_of(source, format, options)
        feed = replace(found, edges=names, frames=exchange if names else None, wants_rows=push == "rows")
        if self.catalog.stream(name) is None:
            if event_time is None:
                raise UsageError("event-time", f"say which column tells the time of a row of {name}: event_time='...'")
            shape = shape_of(feed, name)
            try:
                stream = Stream(name, columns_of(shape), event_time, parse_duration(lateness), **settings)
                self.catalog = self.catalog.with_relation(stream)
            except (TypeError, ValueError) as problem:
                raise UsageError("stream", str(problem)) from None
            self.unread |= unread_columns(shape)
        elif feed.frame is not None:
            check_frame(feed.frame, self.catalog.stream(name))
        self.feeds[name.lower()] = feed

    def table(
        self,
        name: str,
        source: PathText | DataFrame | pa.Table,
        *,
        format: str = "parquet",
        options: Mapping[str, str] | None = None,
    ) -> None:
        """A static table that queries may join."""
        feed = feed_of(source, format, options)
        if self.catalog.table(name) is None:
            shape = shape_of(feed, name)
            try:
                self.catalog = self.catalog.with_relation(Table(name, columns_of(shape)))
            except ValueError as problem:
                raise UsageError("table", str(problem)) from None
            self.unread |= unread_columns(shape)
        self.feeds[name.lower()] = feed

    def add(self, name: str, sql: str) -> None:
        """A query, under a name that its results have too."""
        self.check_new(name)
        known = {other: query for other, (_, query) in self.queries.items()}
        with telling_of(self.unread):
            self.catalog, query = parse_next(sql, self.catalog, known)
        self.queries[name] = sql, query

    def add_script(self, script: Script) -> None:
        """Take a script that was parsed elsewhere: its catalog replaces this one, and its queries are added."""
        self.catalog = script.catalog
        for named in script.queries:
            self.check_new(named.name)
            self.queries[named.name] = format_query(named.query), named.query

    def check_new(self, name: str) -> None:
        """Refuse what can't be the name of a new query."""
        check_name(name)
        if (known := same_name(name, self.queries)) is not None:
            raise UsageError("query-exists", f"there is a query '{known}' already")

    def sink(self, kind: str, **options: Any) -> Any:
        """Where results go: parquet, json, console, memory or callback. Without one: Parquet, beside the state."""
        made = make_sink(kind, options)
        if isinstance(made, ResultFolder):
            self.folders.append(made)
        else:
            self.sinks.append(made)
        return made

    # Running

    def start(self, trigger: str = "1 s") -> Run:
        """Run until stopped, a step at every trigger."""
        run = self.run()
        run.start(parse_duration(trigger), report)
        return run

    def once(self) -> Run:
        """Process what is there, then stop; what is open stays open for the next time."""
        run = self.run()
        run.once()
        return run

    def bounded(self) -> Run:
        """Process what is there as if nothing came any more: every window is closed."""
        run = self.run()
        run.bounded()
        return run

    def run(self) -> Run:
        """A run that has not begun: the state is open, and what was interrupted is known."""
        if not self.catalog.streams:
            raise UsageError("stream", "there is no stream", hint="engine.stream(name, source, event_time=...)")
        report_lacking(self.spark)
        run = Run(discover=self.discover)
        try:
            for stream in self.catalog.streams:
                feed = self.feeds.get(stream.name.lower())
                if feed is None:
                    problem = f"say where the rows of {stream.name} come from: engine.stream(name, source)"
                    raise UsageError("stream", problem)
                run.pipelines.append(self.pipeline(stream, feed, run.chain, stream.name))
            self.discover(run)
            run.chain.check_names()
            run.is_made = True
        except BaseException:
            run.close()
            raise
        return run

    def discover(self, run: Run) -> None:
        """Add pipelines for results that queries read: those that were added here, or have a state already. Those of
        results that nobody reads any more make way.
        """
        for pipeline in [each for each in run.pipelines if run.chain.is_stale(each)]:
            pipeline.close()
            run.pipelines.remove(pipeline)
        places = {pipeline.place for pipeline in run.pipelines}
        asked = [query for _, query in self.queries.values() if not run.is_made and self.is_of_results(query)]
        read = {place_of(query, self.catalog) for query in asked}
        kept = {path.parent.name for path in self.state.glob("*/format.json") if path.parent.name not in places}
        missing = (read - places) | {place for place in kept if has_readers(self.state / place)}
        ready = [place for place in sorted(missing) if all(run.chain.holder(name) for name in place.split("+"))]
        for place in ready:
            run.pipelines.append(self.results_pipeline(place, run))
        if ready:
            self.discover(run)

    def is_of_results(self, query: Query) -> bool:
        stream = self.catalog.stream(query.stream)
        return stream is not None and stream.derived is not None

    def results_pipeline(self, place: str, run: Run) -> Pipeline:
        """For queries over the results of a query, and of others that are joined to it."""
        results, *joined = (run.chain.results(name) for name in place.split("+"))
        prepared = prepare_results(self.state, place, results, results.stepper.setting.reducers)
        beginning = Beginning(*read_format(prepared.root / "format.json")["beginning"])
        feed = Feed(Source(str(results.folder), "parquet"))
        made = self.pipeline(results.stream, feed, run.chain, place, Upstream(results, joined, beginning))
        if run.is_made:
            made.stepper.changes.register({})
        return made

    def reducers_of(self, root: Path) -> int:
        """Return the number that a state has, or is to have: what the options say, or the cores that Spark has."""
        if (root / "format.json").exists():
            return open_directory(root).reducers
        return self.options.reducers or wait_for_cores(self.spark)

    def pipeline(
        self, stream: Stream, feed: Feed, chain: Chain, place: str, upstream: Upstream | None = None
    ) -> Pipeline:
        check_stream_name(stream.name)
        root = self.state / place
        directory = prepare(root, format_stream(stream), self.reducers_of(root))
        folders = self.result_folders(root)
        known = {table.name: table for table in self.catalog.tables if table.name.lower() in self.feeds}
        derived = {each.name: each for each in (*self.catalog.derived, *([stream] if upstream else []))}
        setting = Setting(
            uuid4().hex,
            str(root),
            directory.reducers,
            replace(self.catalog, derived=tuple(derived.values())),
            stream.name,
            feed.source,
            folders,
            self.options.on_bad_file,
            self.options.max_empty,
            upstream.beginning.time_us if upstream else None,
            feed.edges,
            self.options.max_result_rows,
        )
        exchange = DirectoryExchange(feed.frames) if feed.frames is not None else None
        stepper = Stepper(
            setting,
            OnSpark(self.spark),
            quotas=self.options.quotas,
            retain_us=None if self.options.retain is None else parse_duration(self.options.retain),
            step_bytes=self.options.step_bytes,
            take_over=self.options.take_over,
            reset_results=self.options.reset_results,
            reload=lambda name: stepper.keep_table(self.rows_of(known[name])),
            upstream=upstream,
            inbox=None
            if exchange is None
            else Inbox(directory, stream, feed.edges, exchange, wants_rows=feed.wants_rows),
        )
        try:
            stepper.changes.readable, stepper.changes.readers = chain.queries, chain.readers
            stepper.changes.tables = {name: stepper.keep_table(self.rows_of(table)) for name, table in known.items()}
            own = {name: each for name, each in self.queries.items() if place_of(each[1], self.catalog) == place}
            stepper.changes.register(own)
            return Pipeline(stepper, feed.frame, self.sinks)
        except BaseException:
            stepper.close()
            raise

    def result_folders(self, root: Path) -> tuple[ResultFolder, ...]:
        """Parquet first: the other sinks are given what is read back from there."""
        parquet = [folder for folder in self.folders if folder.format == "parquet"]
        others = [folder for folder in self.folders if folder.format != "parquet"]
        if not parquet and (self.sinks or not others or self.catalog.derived):
            parquet = [ResultFolder(str(root / "results"), "parquet")]
        return (*parquet, *others)

    def rows_of(self, table: Table) -> pa.Table:
        feed = self.feeds[table.name.lower()]
        if feed.source is not None:
            return read_table(feed.source, table)
        assert feed.frame is not None
        rows = feed.frame if isinstance(feed.frame, pa.Table) else feed.frame.toArrow()
        return convert_whole(table.name, rows, table.columns)


def report(problem: BaseException) -> None:
    """Who started the run may not be waiting for it. Of what is told to people, only what it came of has a trace."""
    trace = problem.__cause__ if isinstance(problem, HeadraceError) else problem
    LOG.error("the run has stopped: %s", problem, exc_info=trace)


def check_frame(frame: Any, stream: Stream | None) -> None:
    """Refuse a DataFrame whose rows can never be rows of the stream as it is declared."""
    assert stream is not None
    try:
        check_schema(empty(frame).schema, stream)
    except DataError as problem:
        message = f"the DataFrame of {stream.name}: {problem.message}"
        raise DataError(problem.code, message, detail=problem.detail, hint=problem.hint) from None


def feed_of(source: Any, format: str, options: Mapping[str, str] | None) -> Feed:
    if source is None:
        return Feed(None)
    if isinstance(source, str | PathLike):
        return Feed(Source(str(local_path(source)), format, dict(options or {})))
    return Feed(None, source)


def shape_of(feed: Feed, name: str) -> pa.Table:
    """The columns that rows have: of a DataFrame, of an Arrow table, or of the first Parquet file."""
    if feed.frame is not None:
        return feed.frame if isinstance(feed.frame, pa.Table) else empty(feed.frame)
    files = list_files(feed.source) if feed.source is not None and feed.source.format == "parquet" else []
    if not files:
        raise UsageError("stream", f"the columns of {name} are not known", hint="engine.declare('CREATE STREAM ...')")
    return pq.read_schema(files[0].path).empty_table()
