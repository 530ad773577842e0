"""A run: steps at every trigger until stopped, once, or to the end of bounded input."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa

from headrace.engine.chain import Chain
from headrace.engine.pipeline import Pipeline
from headrace.engine.progress import Progress
from headrace.engine.registry import ask, wait_for_answer
from headrace.engine.step.stepper import Input
from headrace.model.arrow import from_rows
from headrace.model.errors import HeadraceError, UsageError
from headrace.model.query_names import check_query_name

ANSWER_S = 60.0
EDGES_S = 0.1
"""Pause between looks at what edges sent, while the run waits for the end of their rows."""


Translate = Callable[[BaseException], BaseException]
"""Return the error to raise in place of another, which may be the same."""


def now_us() -> int:
    """Return the clock of runs over files, read once per step and journalled with it."""
    return time.time_ns() // 1_000


@contextmanager
def translate_errors(translate: Translate) -> Iterator[None]:
    """Raise errors as `translate` returns them, with the original one as the cause."""
    try:
        yield
    except BaseException as problem:
        known = translate(problem)
        if known is problem:
            raise
        raise known from problem


class StreamingQuery(Protocol):
    """A streaming dataframe that calls the steps of its pipeline from a thread of its own."""

    def check(self) -> None:
        """Raise what ended it, if it has ended."""

    def stop(self) -> None:
        """End it, and raise what went wrong."""


OnFailure = Callable[[BaseException], None]
StartStreaming = Callable[[Pipeline, int, OnFailure], StreamingQuery]
"""Start the streaming dataframe of a pipeline, with the microseconds between two triggers and what to call at once with
an error in its thread.
"""


class Run:
    """A run of an engine: queries come and go, and results and progress can be read meanwhile.

    `Engine.start`, `Engine.once` and `Engine.bounded` return one. It is a context manager that stops the run at the end
    of its block.

    Example:
        >>> with engine.start(trigger="100 ms") as run:
        ...     answer = run.add("rows", "SELECT count(*) AS n FROM Trades [RANGE '1 minute']")
        >>> run.is_active
        False
    """

    def __init__(
        self,
        chain: Chain,
        clock: Callable[[], int | None] = now_us,
        discover: Callable[[], None] = lambda: None,
        *,
        start_streaming: StartStreaming | None = None,
        translate: Translate = lambda problem: problem,
    ) -> None:
        """Make a run that has not begun. Users get one from an engine.

        Args:
            chain: The pipelines: one per stream, and one per query whose results others read. Their states are open.
            clock: Returns microseconds since the epoch, or None if time plays no part.
            discover: Adds to the pipelines those for results that queries begin to read during the run.
            start_streaming: Starts the streaming dataframe of a pipeline.
            translate: Returns the error to raise in place of one that ended the run.
        """
        self.chain = chain
        self.pipelines = chain.pipelines
        self.discover = discover
        self.start_streaming = start_streaming
        self.translate = translate
        self.is_open = True
        """Whether the states of its streams are open: until `close`."""
        self.clock = clock
        self.stopping = threading.Event()
        self.problem: BaseException | None = None
        self.report: Callable[[BaseException], None] = lambda problem: None
        self.thread: threading.Thread | None = None
        self.streaming: list[StreamingQuery] = []
        self.is_working = False
        self.is_done = False
        self.failing = threading.Lock()

    # Ways to run

    def start(self, trigger_us: int, report: Callable[[BaseException], None] = lambda problem: None) -> None:
        """Run steps in a thread until stopped. `Engine.start` calls this.

        Args:
            trigger_us: Microseconds from one step to the next.
            report: Called at once with the error that ends the run.
        """
        self.report = report
        for pipeline in self.pipelines:
            if pipeline.is_streaming:
                assert self.start_streaming is not None
                self.streaming.append(self.start_streaming(pipeline, trigger_us, self.streaming_failed))
        self.thread = threading.Thread(target=self.loop, args=(trigger_us / 1e6,), name="headrace", daemon=True)
        self.thread.start()

    def loop(self, trigger_s: float) -> None:
        """Step over files. An error stops the run; `join`, `stop` and every later request raise it."""
        try:
            while not self.stopping.is_set():
                begun = time.monotonic()
                self.discover()
                for pipeline in self.pipelines:
                    if not pipeline.is_streaming:
                        pipeline.tick(self.clock())
                    pipeline.delivery.check()
                self.check_streaming()
                self.stopping.wait(max(0.0, begun + trigger_s - time.monotonic()))
        except BaseException as problem:  # noqa: BLE001 - the outermost loop: it stops and keeps the cause
            self.record_failure(problem)

    def record_failure(self, problem: BaseException) -> None:
        """Keep the first error, and report it before anything that waits for the run continues."""
        with self.failing:
            if self.problem is None:
                self.problem = self.translate(problem)
                if self.problem is not problem:
                    self.problem.__cause__ = problem
                self.report(self.problem)
            self.stopping.set()

    def check_streaming(self) -> None:
        """Notice streaming dataframes that ended outside of a step."""
        for streaming in self.streaming:
            try:
                streaming.check()
            except Exception as problem:  # noqa: BLE001 - it ends the run, unless the run is stopping
                self.streaming_failed(problem)

    def streaming_failed(self, problem: BaseException) -> None:
        """Keep an error of a streaming dataframe. Stopping the run ends it too: that is no failure."""
        if not self.stopping.is_set():
            self.record_failure(problem)

    def once(self) -> None:
        """Process the input that exists now, up to the watermark. `Engine.once` calls this.

        Raises:
            HeadraceError: A stream is a streaming DataFrame, or a step failed.
        """
        self.run_until_idle(ended=False)

    def bounded(self) -> None:
        """Process the input that exists now and close every window. `Engine.bounded` calls this.

        Raises:
            HeadraceError: A stream is a streaming DataFrame, or a step failed.
        """
        self.run_until_idle(ended=True)

    def run_until_idle(self, ended: bool) -> None:
        """Run steps until no pipeline has input. The state stays open; `stop` closes it."""
        self.is_working = True
        try:
            with translate_errors(self.translate):
                self.check_bounded()
                clock_us = None if ended else self.clock()
                while any(self.run_steps(pipeline, clock_us, ended) for pipeline in self.pipelines) or (
                    ended and self.waits_for_edges()
                ):
                    pass  # what one has closed, another may read
                for pipeline in self.pipelines:
                    pipeline.delivery.drain()
        except BaseException as problem:
            self.problem = problem
            self.close()
            raise
        finally:
            self.is_working, self.is_done = False, True

    def check_bounded(self) -> None:
        for pipeline in self.pipelines:
            if pipeline.is_streaming:
                raise UsageError("streaming", f"{pipeline.stream.name} never ends", hint="engine.start()")

    def run_steps(self, pipeline: Pipeline, clock_us: int | None, ended: bool) -> bool:
        """Run all steps that a pipeline has input for; return whether there was one."""
        before = pipeline.stepper.commit
        if pipeline.dataframe is not None and before is None:
            pipeline.rows_step(pipeline.dataframe, clock_us, None, (), ended)
        while not self.stopping.is_set() and pipeline.step(Input(clock_us, ended=ended)) is not None:
            pass
        return pipeline.stepper.commit is not before and not self.stopping.is_set()

    def waits_for_edges(self) -> bool:
        """Return whether some edge has not sent the end of its rows yet, after a short pause."""
        is_waiting = any(pipeline.stepper.inbox and not pipeline.stepper.is_ended for pipeline in self.pipelines)
        return is_waiting and not self.stopping.wait(EDGES_S)

    # Whether it runs

    @property
    def is_active(self) -> bool:
        """Whether the run processes input: False before it starts, and after it has stopped or failed."""
        if self.problem is not None or not self.is_open:
            return False
        return self.is_working or (self.thread is not None and self.thread.is_alive())

    def exception(self) -> BaseException | None:
        """Return the error that ended the run, or None. It never raises.

        Example:
            >>> run = engine.once()
            >>> run.exception() is None
            True
            >>> run.stop()
        """
        return self.problem

    def __repr__(self) -> str:
        status = "not started"
        if self.problem is not None:
            code = getattr(self.problem, "code", type(self.problem).__name__)
            status = f"failed with {code}"
        elif self.is_active:
            status = "active"
        elif not self.is_open or self.stopping.is_set():
            status = "stopped"
        elif self.is_done:
            status = "done"
        steps = ", ".join(f"{progress.stream} at step {progress.step}" for progress in self.progress())
        return f"<headrace.Run {status}{': ' if steps else ''}{steps}>"

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until the run ends.

        Args:
            timeout_s: Seconds to wait. Default: without limit.

        Returns:
            Whether the run has ended.

        Raises:
            HeadraceError: The error that ended the run. One that is not Headrace's or Spark's is raised as it is.

        Example:
            >>> run = engine.start()
            >>> run.join(timeout_s=0.1)
            False
            >>> run.stop()
        """
        if self.thread is not None:
            self.thread.join(timeout_s)
        if self.problem is not None:
            raise self.problem
        return self.thread is None or not self.thread.is_alive()

    def stop(self) -> None:
        """Finish the step that runs, deliver its results, and release the state.

        On a run that has stopped it does nothing.

        Raises:
            HeadraceError: The error that ended the run, as `join` raises it. The state is released all the same.

        Example:
            >>> run = engine.once()
            >>> run
            <headrace.Run done: Trades at step ...>
            >>> run.stop()
            >>> run
            <headrace.Run stopped: Trades at step ...>
        """
        self.stopping.set()
        try:
            try:
                with translate_errors(self.translate):
                    for streaming in self.streaming:
                        streaming.stop()
            finally:
                self.join()  # it knows more than Spark does
            for pipeline in self.pipelines:
                pipeline.delivery.drain()
        finally:
            self.close()

    def close(self) -> None:
        """Release the state without waiting for a step that runs."""
        self.is_open = False
        for pipeline in self.pipelines:
            pipeline.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Queries come and go

    def add(self, name: str, sql: str, stream: str | None = None) -> dict[str, Any]:
        """Register a query, and wait for the step that takes it. It counts rows from that step on.

        Args:
            name: Up to 64 ASCII letters, digits and underscores, a letter first. Names that differ only in case clash.
            sql: A SELECT.
            stream: The stream or the results that the query reads. Default: the one after FROM.

        Returns:
            `version` of the registry and `step`; `start_us` and `end_us` of its first complete window if known.

        Raises:
            HeadraceError: The name or the SQL is refused, no step came within 60 s, or the run has ended.

        Example:
            >>> run = engine.start(trigger="100 ms")
            >>> answer = run.add("trades", "SELECT count(*) AS n FROM Trades [RANGE '1 minute']")
            >>> sorted(answer.keys() & {"step", "version"})
            ['step', 'version']
            >>> run.stop()
        """
        check_query_name(name)
        return self.request("add", name, sql, stream)

    def replace(self, name: str, sql: str, stream: str | None = None) -> dict[str, Any]:
        """Put another query in the place of the one called `name`. It begins again: windows that the old one had open
        are lost.

        Args:
            name: A registered query.
            sql: A SELECT.
            stream: The stream or the results that the query reads. Default: the one after FROM.

        Returns:
            The same as `add`.

        Raises:
            HeadraceError: There is no such query, the SQL is refused, other queries read its results, no step came
                within 60 s, or the run has ended.

        Example:
            >>> run = engine.start(trigger="100 ms")
            >>> answer = run.replace("volume", "SELECT max(Vol) AS volume FROM Trades [RANGE '1 minute']")
            >>> run.stop()
        """
        return self.request("replace", name, sql, stream)

    def drop(self, name: str) -> dict[str, Any]:
        """Remove a query. Its results stay.

        Args:
            name: A registered query.

        Returns:
            `version` of the registry and the `step` from which on the query is gone.

        Raises:
            HeadraceError: There is no such query, other queries read its results, no step came within 60 s, or the run
                has ended.

        Example:
            >>> run = engine.start(trigger="100 ms")
            >>> answer = run.drop("volume")
            >>> run.stop()
        """
        return self.request("drop", name)

    def resume(self, name: str) -> dict[str, Any]:
        """Take a query out of quarantine. It joins again, and answers from its first complete window on.

        Args:
            name: A query in quarantine.

        Returns:
            The same as `add`.

        Raises:
            HeadraceError: There is no such query, it is not in quarantine, no step came within 60 s, or the run has
                ended.

        Example:
            >>> run = engine.start(trigger="100 ms")
            >>> run.resume("volume")
            Traceback (most recent call last):
            headrace.model.errors.UsageError: error[not-quarantined]: the query 'volume' is not in quarantine
            >>> run.stop()
        """
        return self.request("resume", name)

    def rescale(self, reducers: int) -> None:
        """Split the state into another number of parts, from the next step of each stream on.

        Args:
            reducers: How many parts: 1 to 4,096. More than the cores of the cluster do not help.

        Raises:
            HeadraceError: The number is refused, no step came within 60 s, or the run has ended.

        Example:
            >>> run = engine.start(trigger="100 ms")
            >>> run.rescale(3)
            >>> run.stop()
        """
        self.check_live()
        directories = [stepper.directory for stepper in self.chain.steppers()]
        ids = [ask(directory, "rescale", str(reducers)) for directory in directories]
        for directory, id in zip(directories, ids, strict=True):
            if wait_for_answer(directory, id, ANSWER_S, self.may_step) is None:
                self.check_live()
                raise UsageError("no-answer", f"no step came within {ANSWER_S:.0f} s to split the state")

    def request(self, action: str, name: str, sql: str | None = None, stream: str | None = None) -> dict[str, Any]:
        """Leave a request where every process leaves it, and wait for the answer."""
        self.check_live()
        directory = self.chain.directory_of(name) if sql is None else self.chain.directory_for(sql, stream)
        answer = wait_for_answer(directory, ask(directory, action, name, sql or ""), ANSWER_S, self.may_step)
        if answer is None:
            self.check_live()
            raise UsageError("no-answer", f"no step came within {ANSWER_S:.0f} s to {action} '{name}'")
        return answer

    def may_step(self) -> bool:
        """Return whether another step may come, from a thread of the run or from the caller."""
        is_alive = self.thread is not None and self.thread.is_alive()
        return is_alive or (self.problem is None and not self.has_ended)

    @property
    def has_ended(self) -> bool:
        """Whether the run has stopped, or has processed all its input."""
        return self.is_done or self.stopping.is_set() or not self.is_open

    def check_live(self) -> None:
        """Raise an error if no step will come: the run has failed, has stopped, or has processed all its input."""
        self.check_failed()
        if self.has_ended:
            raise UsageError("run-stopped", "the run has stopped", hint="engine.start() begins another one")

    def check_failed(self) -> None:
        if self.problem is not None:
            cause = getattr(self.problem, "message", None) or f"{type(self.problem).__name__}: {self.problem}"
            raise HeadraceError(
                "run-failed",
                f"the run has stopped: {cause}",
                hint="run.exception() is the error; engine.start() resumes from the last step",
            ) from self.problem

    # Results and progress

    def progress(self) -> list[Progress]:
        """Return how far each stream is after its last step. After an error this still shows how far the run came.

        Returns:
            One `Progress` for each stream that has made a step, and one for each query whose results others read.

        Example:
            >>> with engine.bounded() as run:
            ...     progress = run.progress()[0]
            >>> progress.stream, progress.ended
            ('Trades', True)
        """
        return [pipeline.progress for pipeline in self.pipelines if pipeline.progress is not None]

    def results(self, query: str) -> pa.Table:
        """Return the rows of a query so far.

        They are read from the state, which keeps them for the time that the option `results` says. Older ones are read
        from the files of the first `parquet` sink.

        Args:
            query: A query of this run, or one that was dropped.

        Returns:
            One row per window and group; no rows before the first window is closed.

        Raises:
            HeadraceError: There is no such query, or an error ended the run.

        Example:
            >>> with engine.bounded() as run:
            ...     run.results("volume").column_names
            ['window_start', 'window_end', 'Symbol', 'volume']
        """
        self.check_failed()
        for pipeline in self.pipelines:
            if tables := pipeline.results(query):
                return pa.concat_tables(tables)
        known = self.chain.queries().get(query)
        if known is None:
            raise self.chain.no_query(query)
        return from_rows([], known.result_columns())
