"""One stream on its way: the stepper that owns its state, where its rows come from, and who is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from headrace.engine.plan_in_force import SAMPLE_ROWS
from headrace.engine.progress import Progress, progress_of
from headrace.engine.sinks.sinks import Sink, hand_over
from headrace.engine.step import Input, Stepper
from headrace.inputs.conversion import convert_table
from headrace.model.schema import Stream
from headrace.storage.records import Commit


class Pipeline:
    """Steps of one stream. Its rows are files, which the stepper lists, or a DataFrame of Spark."""

    def __init__(self, stepper: Stepper, frame: Any, sinks: Iterable[Sink]) -> None:
        self.stepper = stepper
        self.frame = frame
        self.sinks = list(sinks)
        self.progress: Progress | None = None
        self.failed: Callable[[BaseException], None] = lambda problem: None
        """Is told what goes wrong in a thread of Spark's."""
        if stepper.commit is not None:
            self.told(stepper.commit, 0, 0.0)

    @property
    def stream(self) -> Stream:
        return self.stepper.setting.declared

    @property
    def place(self) -> str:
        """What its state is called."""
        return self.stepper.directory.root.name

    @property
    def is_streaming(self) -> bool:
        return self.frame is not None and bool(self.frame.isStreaming)

    def step(self, given: Input) -> Commit | None:
        """One step, told to sinks and kept as progress."""
        rows = self.stepper.commit.totals.rows if self.stepper.commit else 0
        begun = time.monotonic()
        commit = self.stepper.step(given)
        if commit is not None:
            self.told(commit, commit.totals.rows - rows, time.monotonic() - begun)
        return commit

    def told(self, commit: Commit, rows: int, step_s: float) -> None:
        rows_per_s = self.progress.rows_per_s if self.progress else 0.0
        plan = self.stepper.planner.plan
        parked = self.stepper.waiting.parked
        self.progress = progress_of(self.stream.name, commit, plan, rows, step_s, rows_per_s, parked)
        if self.stepper.setting.results and not self.stepper.reset_folders:
            hand_over(self.stepper.setting.results[0], commit, self.sinks)

    def tick(self, clock_us: int | None) -> Commit | None:
        """A step over files."""
        return self.step(Input(clock_us))

    def rows_step(
        self, frame: Any, clock_us: int | None, batch: int | None, offsets: tuple[str, ...], ended: bool
    ) -> None:
        """A step over the rows of a DataFrame."""
        try:
            self.step(
                Input(clock_us, batch, offsets, frame, None if frame is None else lambda: self.sample(frame), ended)
            )
        except BaseException as problem:
            self.failed(problem)
            raise

    def sample(self, frame: Any) -> pa.Table:
        rows = frame.limit(SAMPLE_ROWS // 10).toArrow()
        return convert_table(rows, self.stream.columns, self.stream.zone).table

    def close(self) -> None:
        self.stepper.close()
