"""A run: steps at every trigger until stopped, once, or to the end of bounded input."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.chain import Chain, prepare_results
from headrace.engine.pipeline import Pipeline
from headrace.engine.progress import Progress
from headrace.engine.registry import answer_to, ask
from headrace.engine.step import Input
from headrace.model.arrow import from_rows
from headrace.model.chaining import place_of
from headrace.model.errors import UsageError, nearest
from headrace.spark.streaming import StreamingFrame
from headrace.sql import parse_next
from headrace.storage.directory import Directory, open_directory

ANSWER_S = 60.0
POLL_S = 0.02
EDGES_S = 0.1
"""Between looks at what edges sent, while the end of their rows is waited for."""


def now_us() -> int:
    """The clock of runs over files, read once per step and journalled with it."""
    return time.time_ns() // 1_000


class Run:
    """What `engine.start()` gives: queries may come and go, progress and results be looked at."""

    def __init__(
        self,
        pipelines: Iterable[Pipeline] = (),
        clock: Callable[[], int] = now_us,
        discover: Callable[[Run], None] = lambda run: None,
    ) -> None:
        """`discover` adds pipelines for results that queries begin to read while the run goes on."""
        self.pipelines = list(pipelines)
        self.chain = Chain(self.pipelines)
        self.discover = discover
        self.is_made = False
        self.clock = clock
        self.stopping = threading.Event()
        self.problem: BaseException | None = None
        self.report: Callable[[BaseException], None] = lambda problem: None
        self.thread: threading.Thread | None = None
        self.frames: list[StreamingFrame] = []

    # Ways to run

    def start(self, trigger_us: int, report: Callable[[BaseException], None] = lambda problem: None) -> None:
        """`report` is told at once what ends the run."""
        self.report = report
        for pipeline in self.pipelines:
            if pipeline.is_streaming:
                pipeline.failed = self.batch_failed
                self.frames.append(StreamingFrame(pipeline, trigger_us))
        self.thread = threading.Thread(target=self.loop, args=(trigger_us / 1e6,), name="headrace", daemon=True)
        self.thread.start()

    def loop(self, trigger_s: float) -> None:
        """Steps over files. What goes wrong stops the run, and is raised where it is waited for."""
        try:
            while not self.stopping.is_set():
                begun = time.monotonic()
                self.discover(self)
                for pipeline in self.pipelines:
                    if not pipeline.is_streaming:
                        pipeline.tick(self.clock())
                self.stopping.wait(max(0.0, begun + trigger_s - time.monotonic()))
        except BaseException as problem:  # noqa: BLE001 - the outermost loop: it stops and keeps the cause
            self.failed(problem)

    def failed(self, problem: BaseException) -> None:
        """It is told before anybody who waits for the run goes on."""
        self.problem = self.problem or problem
        self.report(problem)
        self.stopping.set()

    def batch_failed(self, problem: BaseException) -> None:
        """In a thread of Spark's, which is interrupted when the run is stopped: that is no failure."""
        if not self.stopping.is_set():
            self.failed(problem)

    def once(self) -> None:
        """Everything that is there, up to the watermark."""
        self.whole(ended=False)

    def bounded(self) -> None:
        """Everything that is there, and every window."""
        self.whole(ended=True)

    def whole(self, ended: bool) -> None:
        """The state is left open for looking at; `stop` closes it."""
        try:
            for pipeline in self.pipelines:
                if pipeline.is_streaming:
                    raise UsageError("streaming", f"{pipeline.stream.name} never ends", hint="engine.start()")
            clock_us = None if ended else self.clock()
            while any(self.all_steps(pipeline, clock_us, ended) for pipeline in self.pipelines) or (
                ended and self.waits_for_edges()
            ):
                pass  # what one has closed, another may read
        except BaseException:
            self.close()
            raise

    def all_steps(self, pipeline: Pipeline, clock_us: int | None, ended: bool) -> bool:
        """As many as there are to do; whether there was one."""
        before = pipeline.stepper.commit
        if pipeline.frame is not None and before is None:
            pipeline.rows_step(pipeline.frame, clock_us, None, (), ended)
        while not self.stopping.is_set() and pipeline.step(Input(clock_us, ended=ended)) is not None:
            pass
        return pipeline.stepper.commit is not before and not self.stopping.is_set()

    def waits_for_edges(self) -> bool:
        """Whether some edge has not said yet that nothing follows; it is given a moment."""
        is_waiting = any(each.stepper.inbox and not each.stepper.is_ended for each in self.pipelines)
        return is_waiting and not self.stopping.wait(EDGES_S)

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until the run stops; False if it still runs after the time."""
        if self.thread is not None:
            self.thread.join(timeout_s)
        if self.problem is not None:
            raise self.problem
        return self.thread is None or not self.thread.is_alive()

    def stop(self) -> None:
        """Finish the step that runs, then stop."""
        self.stopping.set()
        try:
            try:
                for frame in self.frames:
                    frame.stop()
            finally:
                self.join()  # it knows more than Spark does
        finally:
            self.close()

    def close(self) -> None:
        for pipeline in self.pipelines:
            pipeline.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Queries come and go

    def add(self, name: str, sql: str, stream: str | None = None) -> dict[str, Any]:
        """Register a query; it counts from the next step on. Tells the version of the registry and the step."""
        return self.asked("add", name, sql, stream or self.place_for(sql))

    def replace(self, name: str, sql: str, stream: str | None = None) -> dict[str, Any]:
        return self.asked("replace", name, sql, stream or self.place_for(sql))

    def drop(self, name: str) -> dict[str, Any]:
        holder = self.chain.holder(name)
        if holder is None:
            raise self.no_query(name)
        return self.asked("drop", name, "", holder.directory.root.name)

    def resume(self, name: str) -> dict[str, Any]:
        """Take a query out of quarantine: it joins again, as a new generation."""
        holder = self.chain.holder(name)
        if holder is None:
            raise self.no_query(name)
        return self.asked("resume", name, "", holder.directory.root.name)

    def place_for(self, sql: str) -> str:
        """Where the query is answered. For results that nobody reads yet a state is made, so that the request finds it;
        the run takes it up at its next round.
        """
        catalog, query = parse_next(sql, self.pipelines[0].stepper.setting.catalog, self.chain.queries())
        place = place_of(query, catalog)
        if self.chain.holder(query.stream) is not None and place not in self.places():
            results = self.chain.results(query.stream)
            setting = results.stepper.setting
            prepare_results(Path(setting.root).parent, place, results, setting.reducers)
        return place

    def places(self) -> set[str]:
        return {pipeline.place for pipeline in self.pipelines}

    def asked(self, action: str, name: str, sql: str, stream: str | None) -> dict[str, Any]:
        """Leave the request where every process leaves it, and wait for the answer."""
        directory = self.directory_of(stream)
        request = ask(directory, action, name, sql)
        until = time.monotonic() + ANSWER_S
        while time.monotonic() < until:
            found = answer_to(directory, request)
            if found is not None:
                if "refused" in found:
                    raise UsageError(
                        found["code"], found["message"], detail=found.get("detail"), hint=found.get("hint")
                    )
                return found
            self.join(POLL_S)
        raise UsageError("no-answer", f"no step came within {ANSWER_S:.0f} s to {action} '{name}'")

    def directory_of(self, place: str | None) -> Directory:
        """That of a pipeline, or one that was made for results and is taken up at the next round."""
        root = self.pipelines[0].stepper.directory.root.parent / (place or "")
        if place is not None and place not in self.places() and (root / "format.json").exists():
            return open_directory(root)
        return self.pipeline(place).stepper.directory

    def pipeline(self, stream: str | None) -> Pipeline:
        if stream is None:
            if len(self.pipelines) == 1:
                return self.pipelines[0]
            raise UsageError("stream", "there are several streams: say which one, stream='...'")
        found = [each for each in self.pipelines if each.place.lower() == stream.lower()]
        if not found:
            names = sorted(self.places())
            raise UsageError("stream", f"there is no stream '{stream}'", hint=nearest(stream, names))
        return found[0]

    # Looking

    def progress(self) -> list[Progress]:
        """Of each stream, after its last step."""
        return [each.progress for each in self.pipelines if each.progress is not None]

    def results(self, query: str) -> pa.Table:
        """The rows of a query so far, from its Parquet files."""
        for pipeline in self.pipelines:
            folders = [folder for folder in pipeline.stepper.setting.results if folder.format == "parquet"]
            for folder in folders[:1]:
                files = sorted((Path(folder.path) / query).glob("step-*.parquet"))
                if files:
                    return pa.concat_tables([pq.read_table(file) for file in files])
        known = self.chain.queries().get(query)
        if known is None:
            raise self.no_query(query)
        columns = known.result_columns()
        return from_rows([], columns)

    def no_query(self, name: str) -> UsageError:
        return UsageError("no-query", f"there is no query '{name}'", hint=nearest(name, self.chain.queries()))
