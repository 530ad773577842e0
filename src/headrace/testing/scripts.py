"""Scripts of a stream: batches that arrive one by one, and marks where the engine stops or dies between them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.aggregates.user import DeclaredAggregate
from headrace.engine.engine import LocalEngine, Options
from headrace.engine.run import Run
from headrace.engine.step.context import Step
from headrace.engine.step.runner import InProcess, Ran
from headrace.model.arrow import arrow_type
from headrace.model.errors import UsageError
from headrace.model.schema import Stream, UserFunction
from headrace.model.time import parse_duration, to_microseconds

Batch: TypeAlias = pa.Table | Sequence[Mapping[str, Any]]


class ScriptMark(Enum):
    """What happens to the engine at a place of a script."""

    STOP = "stop"
    ABORT = "abort"


STOP = ScriptMark.STOP
"""The engine stops here, and another one resumes from its state."""
ABORT = ScriptMark.ABORT
"""The engine dies in the next step, after its tasks and before its commit, and another one resumes from its state."""


class FakeClock:
    """A clock that a test sets.

    Example:
        >>> from datetime import UTC, datetime
        >>> clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        >>> clock.advance("1 minute")
        >>> clock()
        1767225660000000
    """

    def __init__(self, now: datetime) -> None:
        self.now_us = to_microseconds(now)

    def __call__(self) -> int:
        """Return microseconds since the epoch."""
        return self.now_us

    def advance(self, duration: str) -> None:
        self.now_us += parse_duration(duration)


def play(
    declaration: str,
    script: Iterable[Batch | ScriptMark],
    queries: Mapping[str, str],
    *,
    tables: Mapping[str, pa.Table] | None = None,
    functions: Iterable[UserFunction | DeclaredAggregate] = (),
    clock: Callable[[], int | None] = lambda: None,
    close: bool = True,
    options: Options | None = None,
) -> dict[str, pa.Table]:
    """Answer queries over a stream whose batches arrive one by one, each in a step of its own, in this process.

    Args:
        declaration: The CREATE STREAM statement of one stream.
        script: Batches, which are Arrow tables or lists of rows, and the marks `STOP` and `ABORT`. A time in a row is a
            datetime, or microseconds since the epoch.
        queries: SQL by the name of the query.
        tables: Static tables to join, by name.
        functions: User functions and aggregates that the queries call.
        clock: Returns the clock of a step in microseconds. Default: no clock, so that no row is of the future.
        close: Whether the stream ends with the script, so that every window is closed.
        options: Of the engine. Default: two reducers.

    Returns:
        The results by the name of the query.

    Raises:
        HeadraceError: The declaration, a query or a row is refused.
    """
    with TemporaryDirectory() as folder:
        player = Player(Path(folder), declaration, queries, clock, options or Options(reducers=2))
        player.tables, player.functions = dict(tables or {}), tuple(functions)
        try:
            for item in script:
                player.take(item)
            player.settle(ended=close)
            return {name: player.run.results(name) for name in queries}
        finally:
            player.run.close()


class AbortError(BaseException):
    """The death of an engine. No part of it may catch this."""


class DyingRunner(InProcess):
    """Runs the tasks of a step; if `is_dying` is set, it dies once, after the tasks of the next step."""

    is_dying = False

    def run(self, step: Step, rows: Any) -> Ran:
        ran = super().run(step, rows)
        if self.is_dying:
            self.is_dying = False
            raise AbortError
        return ran


class PlayerEngine(LocalEngine):
    def __init__(self, state: Path, options: Options, runner: InProcess) -> None:
        super().__init__(state, options)
        self.runner = runner

    def make_runner(self) -> InProcess:
        return self.runner


class Player:
    """Writes the batches of a script as files, and runs an engine over them."""

    def __init__(
        self,
        folder: Path,
        declaration: str,
        queries: Mapping[str, str],
        clock: Callable[[], int | None],
        options: Options,
    ) -> None:
        self.folder = folder
        self.declaration = declaration
        self.queries = queries
        self.clock = clock
        self.options = options
        self.tables: dict[str, pa.Table] = {}
        self.functions: tuple[UserFunction | DeclaredAggregate, ...] = ()
        self.runner = DyingRunner()
        self.batches = 0
        self._run: Run | None = None

    @property
    def run(self) -> Run:
        """The run that is open; a new one, if there is none."""
        if self._run is None or not self._run.is_open:
            self._run = self.engine().run()
            self._run.clock = self.clock
        return self._run

    def engine(self) -> LocalEngine:
        engine = PlayerEngine(self.folder / "state", self.options, self.runner)
        engine.declare(self.declaration)
        engine.functions(self.functions)
        engine.stream(self.stream_of(engine).name, self.folder / "input")
        for name, rows in self.tables.items():
            engine.table(name, rows)
        for name, sql in self.queries.items():
            engine.add(name, sql)
        return engine

    def stream_of(self, engine: LocalEngine) -> Stream:
        streams = engine.catalog.streams
        if len(streams) != 1:
            raise UsageError("declaration", f"a script is of one stream, and {len(streams)} are declared")
        return streams[0]

    def take(self, item: Batch | ScriptMark) -> None:
        if item is STOP:
            self.run.stop()
        elif item is ABORT:
            self.runner.is_dying = True
        else:
            write_batch(self.folder / "input", to_table(item, self.run.pipelines[0].stream), self.batches)
            self.batches += 1
            self.settle(ended=False)

    def settle(self, ended: bool) -> None:
        """Run steps until there is no input left; an engine that dies is followed by another."""
        try:
            self.run.run_until_idle(ended)
        except AbortError:
            self.run.run_until_idle(ended)


def to_table(batch: Batch, stream: Stream) -> pa.Table:
    if isinstance(batch, pa.Table):
        return batch
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in stream.columns])
    return pa.Table.from_pylist(list(batch), schema=schema)


def write_batch(folder: Path, rows: pa.Table, number: int) -> Path:
    """Write a Parquet file that appears whole, and that is listed after those with smaller numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".part-{number:04}.parquet"
    pq.write_table(rows, hidden)
    os.utime(hidden, ns=(number * 10**9, number * 10**9))
    return hidden.rename(folder / hidden.name.removeprefix("."))
