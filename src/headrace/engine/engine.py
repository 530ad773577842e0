"""The engine as Python programs use it: streams, tables, queries and sinks, then a run."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa

from headrace.aggregates.registry import with_functions
from headrace.aggregates.user import DeclaredAggregate
from headrace.engine.assembly import Assembly
from headrace.engine.dataframes import columns_of, mention_unread, unread_columns
from headrace.engine.edge_inbox import PUSHES
from headrace.engine.feeds import Feed, PathText, make_feed, read_columns
from headrace.engine.pipeline import Pipeline
from headrace.engine.quotas import Quotas
from headrace.engine.run import OnFailure, Run, StreamingQuery, translate_errors
from headrace.engine.sinks.sinks import ResultFolder, Sink, make_sink
from headrace.engine.step.runner import InProcess, Runner
from headrace.inputs.conversion import check_schema
from headrace.kernel.close.instances import MAX_RESULT_ROWS
from headrace.model.errors import DataError, HeadraceError, UsageError
from headrace.model.key_groups import KEY_GROUPS
from headrace.model.query import Query
from headrace.model.query_names import check_query_name
from headrace.model.schema import Catalog, Stream, Table, UserFunction
from headrace.model.time import parse_duration
from headrace.sql import Script, format_query, parse_next, parse_script
from headrace.storage.disk import local_path
from headrace.storage.store import is_remote, locate

LOG = logging.getLogger(__name__)
OPEN_RUNS: WeakValueDictionary[str, Run] = WeakValueDictionary()
"""The last run over each state directory in this process."""


@dataclass(frozen=True, slots=True)
class Options:
    """How an engine runs. `headrace.Engine` describes each option."""

    reducers: int | None = None
    on_bad_file: str = "stop"
    max_empty: int = 1_000
    max_result_rows: int = MAX_RESULT_ROWS
    retain: str | None = None
    results: str | None = None
    step_bytes: int | None = None
    take_over: bool = False
    reset_results: bool = False
    quotas: Quotas = field(default_factory=Quotas)

    def __post_init__(self) -> None:
        if self.on_bad_file not in ("stop", "quarantine"):
            raise UsageError("option", f"on_bad_file is stop or quarantine, not {self.on_bad_file}")
        for name in ("retain", "results"):
            if getattr(self, name) is not None:
                parse_option(name, getattr(self, name))
        if self.reducers is not None and not 1 <= self.reducers <= KEY_GROUPS:
            raise UsageError("option", f"reducers is between 1 and {KEY_GROUPS:,}, not {self.reducers}")


class LocalEngine:
    """Answers continuous queries over streams of files with one shared plan per stream, in this process.

    `headrace.Engine` is the one on Spark: it overrides the methods of the section *What runs the steps*.
    """

    def __init__(self, state: PathText, options: Options | None = None) -> None:
        self.options = options or Options()
        self.state = locate(state)
        self.catalog = Catalog()
        self.feeds: dict[str, Feed] = {}
        self.unread: dict[str, pa.DataType] = {}
        self.queries: dict[str, tuple[str, Query]] = {}
        self.folders: list[ResultFolder] = []
        self.sinks: list[Sink] = []

    # What there is

    def declare(self, script: str) -> None:
        """Declare streams and tables. `stream` and `table` then say where their rows come from.

        Args:
            script: CREATE STREAM and CREATE TABLE statements.

        Raises:
            QueryError: A statement is wrong, or a name is declared already.

        Example:
            >>> engine.declare("CREATE STREAM Quotes (at TIMESTAMP, bid DOUBLE) EVENT TIME at LATENESS '5 s';")
        """
        self.catalog = parse_script(script, self.catalog).catalog

    def functions(self, functions: Iterable[UserFunction | DeclaredAggregate]) -> None:
        """Let queries call Python functions and aggregates.

        Args:
            functions: What `user_function`, `user_aggregate` and `declare_aggregates` return.

        Raises:
            HeadraceError: A name is taken.

        Example:
            >>> @headrace.user_function
            ... def initial(symbol: str) -> str:
            ...     return symbol[:1]
            >>> engine.functions([initial])
            >>> engine.add("initials", "SELECT initial(Symbol) AS s FROM Trades [RANGE '1 s'] GROUP BY initial(Symbol)")
        """
        self.catalog = with_functions(self.catalog, functions)

    def stream(
        self,
        name: str,
        source: PathText | Any | None = None,
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
        """Say where the rows of a stream come from: files or a DataFrame, and edges.

        A stream that is not declared yet is declared here, with the columns of the DataFrame or of the first file.

        Args:
            name: What queries call the stream.
            source: A directory of files, or a DataFrame of Spark, streaming or not.
            event_time: The column with the time of a row. Needed if the stream is not declared.
            lateness: How far behind the highest time seen a row may come.
            format: Of the files: `parquet`, `json` or `csv`.
            options: Of the format.
            edges: Names of the edges that send rows of this stream.
            frames: The directory that edges send to. Default: one in the state.
            push: What edges send: `partials` or `rows`.
            settings: Further fields of `headrace.model.schema.Stream`, such as `skew_us`.

        Raises:
            UsageError: Nothing says where the rows come from, or an argument does not fit.
            DataError: The DataFrame can never have rows of the stream as it is declared.

        Example:
            >>> engine.stream("Ticks", root / "trades" / "Trades", event_time="Time", lateness="5 s")
        """
        names = tuple(edges)
        if source is None and not names:
            raise UsageError("stream", f"say where the rows of {name} come from: a source, or edges=[...]")
        if push not in PUSHES:
            raise UsageError("push", f"edges send {' or '.join(PUSHES)}, not {push}")
        exchange = None if not names else local_path(frames if frames is not None else f"{self.state}/{name}/exchange")
        feed = replace(
            make_feed(source, format, options),
            edges=names,
            frames=exchange,
            wants_rows=push == "rows",
        )
        declared = self.catalog.stream(name)
        if declared is None:
            if event_time is None:
                raise UsageError("event-time", f"say which column holds the event time of {name}: event_time='...'")
            columns = self.columns_of(feed, name)
            try:
                stream = Stream(name, columns_of(columns), event_time, parse_duration(lateness), **settings)
                self.catalog = self.catalog.with_relation(stream)
            except (TypeError, ValueError) as problem:
                raise UsageError("stream", str(problem)) from None
            self.unread |= unread_columns(columns)
        elif feed.dataframe is not None:
            check_columns(self.empty_table(feed.dataframe), declared)
        self.feeds[name.lower()] = feed

    def table(
        self,
        name: str,
        source: PathText | Any,
        *,
        format: str = "parquet",
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Say where the rows of a static table come from, which queries may join.

        A table that is not declared yet is declared here, with the columns of the DataFrame or of the first file.

        Args:
            name: What queries call the table.
            source: A file or a directory of files, an Arrow table, or a DataFrame of Spark.
            format: Of the files: `parquet`, `json` or `csv`.
            options: Of the format.

        Raises:
            UsageError: The columns are not known, or two have the same name.

        Example:
            >>> import pyarrow as pa
            >>> engine.table("Sectors", pa.table({"Symbol": ["S0", "S1"], "sector": ["energy", "banks"]}))
        """
        feed = make_feed(source, format, options)
        if self.catalog.table(name) is None:
            columns = self.columns_of(feed, name)
            try:
                self.catalog = self.catalog.with_relation(Table(name, columns_of(columns)))
            except ValueError as problem:
                raise UsageError("table", str(problem)) from None
            self.unread |= unread_columns(columns)
        self.feeds[name.lower()] = feed

    def add(self, name: str, sql: str) -> None:
        """Add a query before the run starts. During the run it is `Run.add`.

        Args:
            name: Up to 64 ASCII letters, digits and underscores, a letter first. Names that differ only in case clash.
                Results have this name, and other queries read them by it.
            sql: A SELECT over a stream that is known, or over the results of a query that was added before.

        Raises:
            UsageError: The name is taken, or can't be a name.
            QueryError: The SQL is refused.

        Example:
            >>> engine.add("rate", "SELECT count(*) AS n FROM Trades [RANGE '1 minute' SLIDE '10 s']")
            >>> engine.add("peak", "SELECT max(n) AS n FROM rate [RANGE '1 hour']")
        """
        check_query_name(name, self.queries)
        known = {other: query for other, (_, query) in self.queries.items()}
        with mention_unread(self.unread):
            self.catalog, query = parse_next(sql, self.catalog, known)
        self.queries[name] = sql, query

    def add_script(self, script: Script) -> None:
        """Take a script that was parsed elsewhere: its catalog replaces this one, and its queries are added."""
        self.catalog = script.catalog
        for named in script.queries:
            check_query_name(named.name, self.queries)
            self.queries[named.name] = format_query(named.query), named.query

    def sink(self, kind: str, **options: Any) -> Any:
        """Say where results go. Default: Parquet files in the state.

        Args:
            kind: `parquet` or `json` (`path=`), `console` (`rows=`), `memory`, or `callback` (`function=`).
            options: Those of the kind.

        Returns:
            The sink. That of `memory` has `table(query)`: the rows so far, or None.

        Raises:
            UsageError: There is no such kind, or an option does not fit.

        Example:
            >>> memory = engine.sink("memory")
            >>> engine.bounded().stop()
            >>> memory.table("volume").column_names
            ['window_start', 'window_end', 'Symbol', 'volume']
        """
        made = make_sink(kind, options)
        if isinstance(made, ResultFolder):
            self.folders.append(made)
        else:
            self.sinks.append(made)
        return made

    # Running

    def start(self, trigger: str = "1 s", *, replace: bool = False) -> Run:
        """Start a run in a thread of its own: a step at every trigger, until `Run.stop`.

        Args:
            trigger: The time from one step to the next.
            replace: Stop another run over this state in this process first. Default: raise an error.

        Returns:
            The run.

        Raises:
            HeadraceError: There is no stream, another run has the state, or the state can't be read.

        Example:
            >>> run = engine.start(trigger="100 ms")
            >>> run.is_active
            True
            >>> engine.start()
            Traceback (most recent call last):
            headrace.model.errors.UsageError: error[state-in-use]: a run over ... is open in this process
            hint: run.stop() ends it; replace=True does so before the new one starts
            >>> run = engine.start(replace=True)
            >>> run.stop()
        """
        trigger_us = parse_option("trigger", trigger)
        run = self.run(replace=replace)
        try:
            with translate_errors(self.translate):
                run.start(trigger_us, report)
        except BaseException:
            run.stop()
            raise
        return run

    def once(self, *, replace: bool = False) -> Run:
        """Process the input that exists now, up to the watermark. Open windows stay open for the next run.

        Args:
            replace: Stop another run over this state in this process first. Default: raise an error.

        Returns:
            A run that is done. It keeps the state open until `Run.stop`.

        Raises:
            HeadraceError: As `start`, or a step failed.

        Example:
            >>> with engine.once() as run:
            ...     run.progress()[0].ended
            False
        """
        run = self.run(replace=replace)
        run.once()
        return run

    def bounded(self, *, replace: bool = False) -> Run:
        """Process the input that exists now as all there is: every window is closed.

        Args:
            replace: Stop another run over this state in this process first. Default: raise an error.

        Returns:
            A run that is done. It keeps the state open until `Run.stop`.

        Raises:
            HeadraceError: As `start`, or a step failed.

        Example:
            >>> with engine.bounded() as run:
            ...     run.results("volume").num_rows > 0
            True
        """
        run = self.run(replace=replace)
        run.bounded()
        return run

    def run(self, *, replace: bool = False) -> Run:
        """Open the state, and return a run that has not begun. Most programs call `start`, `once` or `bounded`.

        Args:
            replace: Stop another run over this state in this process first. Default: raise an error.

        Returns:
            A run whose `start`, `once` and `bounded` begin it.

        Raises:
            HeadraceError: There is no stream, another run has the state, or the state can't be read.

        Example:
            >>> with engine.run() as run:
            ...     run.is_active
            False
        """
        if not self.catalog.streams:
            raise UsageError("stream", "there is no stream", hint="engine.stream(name, source, event_time=...)")
        self.release_state(replace)
        with translate_errors(self.translate):
            self.check_session()
            run = Assembly(self).make_run()
        OPEN_RUNS[self.state_key] = run
        return run

    @property
    def state_key(self) -> str:
        return self.state if is_remote(self.state) else os.path.realpath(self.state)

    def release_state(self, replace: bool) -> None:
        """Stop a run over the same state in this process if it has failed, or if it is to be replaced."""
        other = OPEN_RUNS.get(self.state_key)
        if other is None or not other.is_open or self.options.take_over:
            return
        if not replace and other.exception() is None:
            problem = f"a run over {self.state} is open in this process"
            raise UsageError(
                "state-in-use", problem, hint="run.stop() ends it; replace=True does so before the new one starts"
            )
        try:
            other.stop()
        except Exception as problem:  # noqa: BLE001 - it was reported when it ended the run
            LOG.debug("the run that is replaced had failed: %s", problem)

    # What runs the steps

    def make_runner(self) -> Runner:
        return InProcess()

    def count_cores(self) -> int:
        return 1

    def check_session(self) -> None:
        """Report what the session lacks, if there is one."""

    def start_streaming(self, pipeline: Pipeline, trigger_us: int, on_failure: OnFailure) -> StreamingQuery:
        raise UsageError("streaming", f"{pipeline.stream.name} is a streaming DataFrame, which needs Spark")

    def translate(self, problem: BaseException) -> BaseException:
        """Return the error that users get in place of one that came from what runs the steps."""
        return problem

    def empty_table(self, dataframe: Any) -> pa.Table:
        """Return the columns of a dataframe as a table without rows."""
        kind = f"{type(dataframe).__module__}.{type(dataframe).__qualname__}"
        raise UsageError("source", f"rows can't be read from a {kind}", hint="name a directory of files")

    def collect(self, dataframe: Any) -> pa.Table:
        """Return all rows of a dataframe."""
        raise NotImplementedError

    def columns_of(self, feed: Feed, name: str) -> pa.Table:
        """Return a table without rows that has the columns of a feed."""
        if isinstance(feed.dataframe, pa.Table):
            return feed.dataframe.slice(0, 0)
        if feed.dataframe is not None:
            return self.empty_table(feed.dataframe)
        return read_columns(feed.source, name)


def report(problem: BaseException) -> None:
    """Log what ended a run: nobody may be waiting for it. An error with a code needs only the trace of its cause."""
    trace = problem.__cause__ if isinstance(problem, HeadraceError) else problem
    LOG.error("the run has stopped: %s", problem, exc_info=trace)


def parse_option(name: str, duration: str) -> int:
    try:
        return parse_duration(duration)
    except ValueError as problem:
        raise UsageError("option", f"{name}: {problem}") from None


def check_columns(columns: pa.Table, stream: Stream) -> None:
    """Refuse a DataFrame whose rows can never be rows of the stream as it is declared."""
    try:
        check_schema(columns.schema, stream)
    except DataError as problem:
        message = f"the DataFrame of {stream.name}: {problem.message}"
        raise DataError(problem.code, message, detail=problem.detail, hint=problem.hint) from None
