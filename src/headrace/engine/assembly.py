"""From what an engine was given to a run: one pipeline per stream, and one per query whose results others read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from headrace.engine.chain import Chain, JoinedResults, has_readers, prepare_results
from headrace.engine.edge_inbox import Inbox
from headrace.engine.feeds import Feed
from headrace.engine.pipeline import Pipeline
from headrace.engine.registry import check_stream_name
from headrace.engine.run import Run
from headrace.engine.sinks.delivery import Delivery
from headrace.engine.sinks.sinks import ResultFolder
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.stepper import Stepper
from headrace.inputs import read_table
from headrace.inputs.conversion import convert_whole
from headrace.model.derived_streams import place_of
from headrace.model.errors import UsageError
from headrace.model.query import Query
from headrace.model.schema import Stream, Table
from headrace.model.time import parse_duration
from headrace.sql import format_stream
from headrace.storage.directory import Directory, list_states, open_directory, prepare, read_format
from headrace.storage.store import is_remote, open_store
from headrace.storage.store import place_of as place_of_object
from headrace.wire.exchange import DirectoryExchange

if TYPE_CHECKING:
    from headrace.engine.engine import LocalEngine


KEPT_RESULTS = "1 hour"
"""How long results stay in the state after all sinks have them."""


class Assembly:
    """Makes the pipelines of an engine's run: at its start, and when queries begin to read results."""

    def __init__(self, engine: LocalEngine) -> None:
        self.engine = engine
        self.job = open_store(engine.state)
        self.queries = dict(engine.queries)
        """Those to register: none once the run has begun, since requests change them then."""
        self.chain = Chain()
        self.pipelines = self.chain.pipelines

    def make_run(self) -> Run:
        engine = self.engine
        try:
            for stream in engine.catalog.streams:
                feed = engine.feeds.get(stream.name.lower())
                if feed is None:
                    problem = f"say where the rows of {stream.name} come from: engine.stream(name, source)"
                    raise UsageError("stream", problem)
                self.pipelines.append(self.pipeline(stream, feed, stream.name))
            self.discover()
            self.chain.check_names()
        except BaseException:
            for pipeline in self.pipelines:
                pipeline.close()
            raise
        self.queries = {}
        return Run(
            self.chain,
            discover=self.discover,
            start_streaming=engine.start_streaming,
            translate=engine.translate,
        )

    def discover(self) -> None:
        """Add pipelines for results that queries read, which were added here or have a state already, and remove
        pipelines of results that nobody reads any more.
        """
        with self.chain.changing:
            self.add_readers()

    def add_readers(self) -> None:
        for pipeline in [pipeline for pipeline in self.pipelines if self.chain.is_stale(pipeline)]:
            pipeline.close()
            self.pipelines.remove(pipeline)
        places = {pipeline.place for pipeline in self.pipelines}
        derived = [query for _, query in self.queries.values() if self.is_derived(query)]
        read = {place_of(query, self.engine.catalog) for query in derived}
        kept = {place for place in list_states(self.job) if place not in places}
        missing = (read - places) | {place for place in kept if has_readers(open_directory(self.location(place)))}
        ready = [place for place in sorted(missing) if all(self.chain.holder(name) for name in place.split("+"))]
        for place in ready:
            self.pipelines.append(self.results_pipeline(place))
        if ready:
            self.add_readers()

    def is_derived(self, query: Query) -> bool:
        """Return whether a query reads the results of another."""
        stream = self.engine.catalog.stream(query.stream)
        return stream is not None and stream.derived is not None

    def results_pipeline(self, place: str) -> Pipeline:
        """Make the pipeline of queries over the results of a query, and of others that are joined to it."""
        results, *joined = (self.chain.results(name) for name in place.split("+"))
        prepared = prepare_results(self.job, place, results)
        beginning = read_format(prepared.store).beginning
        return self.pipeline(results.stream, Feed(None), place, JoinedResults(results, joined, beginning))

    def location(self, place: str) -> str:
        return place_of_object(self.job, place)

    def first_reducers(self, directory: Directory) -> int:
        """Return the number of reducers that a new state is to have: that of the options, or the number of cores."""
        return 1 if directory.steps() else self.engine.options.reducers or self.engine.count_cores()

    def pipeline(self, stream: Stream, feed: Feed, place: str, upstream: JoinedResults | None = None) -> Pipeline:
        engine, options = self.engine, self.engine.options
        check_stream_name(stream.name)
        directory = prepare(self.location(place), format_stream(stream))
        tables = {table.name: table for table in engine.catalog.tables if table.name.lower() in engine.feeds}
        derived = {other.name: other for other in (*engine.catalog.derived, *([stream] if upstream else []))}
        setting = StreamSetting(
            uuid4().hex,
            directory.store.location,
            replace(engine.catalog, derived=tuple(derived.values())),
            stream.name,
            feed.source,
            options.on_bad_file,
            options.max_empty,
            upstream.beginning.time_us if upstream else None,
            feed.edges,
            options.max_result_rows,
            None if options.retain is None else parse_duration(options.retain),
        )
        exchange = DirectoryExchange(feed.frames) if feed.frames is not None else None
        stepper = Stepper(
            setting,
            engine.make_runner(),
            reducers=self.first_reducers(directory),
            quotas=options.quotas,
            step_bytes=options.step_bytes,
            take_over=options.take_over,
            tables={name: partial(self.read_rows, table) for name, table in tables.items()},
            catalogue=self.chain,
            upstream=upstream,
            inbox=None
            if exchange is None
            else Inbox(directory, stream, feed.edges, exchange, wants_rows=feed.wants_rows),
        )
        try:
            stepper.changes.read_tables()
            queries = {
                name: known for name, known in self.queries.items() if place_of(known[1], engine.catalog) == place
            }
            stepper.changes.register(queries)
            folders = self.result_folders(directory)
            delivery = Delivery(directory, folders, engine.sinks, stepper.commit, reset=options.reset_results)
            results_us = parse_duration(options.results or KEPT_RESULTS)
            return Pipeline(stepper, feed.dataframe, delivery, results_us, self.chain.needed_step)
        except BaseException:
            stepper.close()
            raise

    def result_folders(self, directory: Directory) -> tuple[ResultFolder, ...]:
        """Return where files of results go: Parquet files in the state, if nothing else is said."""
        engine = self.engine
        if engine.folders or engine.sinks or engine.options.results is not None:
            return tuple(engine.folders)
        if is_remote(directory.store.location):
            problem = f"say where the results go: {directory.store.location} is not a directory"
            hint = (
                "engine.sink('parquet', path=...), [[sinks]] in a job, or results = '1 day' to keep them in the state"
            )
            raise UsageError("results", problem, hint=hint)
        return (ResultFolder(str(directory.root / "results"), "parquet"),)

    def read_rows(self, table: Table) -> pa.Table:
        feed = self.engine.feeds[table.name.lower()]
        if feed.source is not None:
            return read_table(feed.source, table)
        dataframe = feed.dataframe
        rows = dataframe if isinstance(dataframe, pa.Table) else self.engine.collect(dataframe)
        return convert_whole(table.name, rows, table.columns)
