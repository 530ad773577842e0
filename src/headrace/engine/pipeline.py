"""One stream of a run: the stepper that owns its state, the source of its rows, and the sinks of its results."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import pyarrow as pa

from headrace.engine.plan_in_force import SAMPLE_ROWS
from headrace.engine.progress import Progress, progress_of
from headrace.engine.sinks.sinks import Sink, deliver_results
from headrace.engine.step.stepper import Input, Stepper
from headrace.inputs.conversion import convert_table
from headrace.model.schema import Stream
from headrace.storage.records import Commit


class Pipeline:
    """Steps of one stream. Its rows are files, which the stepper lists, or a DataFrame of Spark."""

    def __init__(self, stepper: Stepper, dataframe: Any, sinks: Iterable[Sink]) -> None:
        self.stepper = stepper
        self.dataframe = dataframe
        self.sinks = list(sinks)
        self.progress: Progress | None = None
        if stepper.commit is not None:
            self.publish(stepper.commit, 0, 0.0)

    @property
    def stream(self) -> Stream:
        return self.stepper.setting.declared

    @property
    def place(self) -> str:
        """The name of its state directory."""
        return self.stepper.directory.name

    @property
    def is_streaming(self) -> bool:
        return self.dataframe is not None and bool(self.dataframe.isStreaming)

    def step(self, available: Input) -> Commit | None:
        """Run one step, hand its results to the sinks and keep its progress. Return None if there was nothing to do."""
        rows = self.stepper.commit.totals.rows if self.stepper.commit else 0
        begun = time.monotonic()
        commit = self.stepper.step(available)
        if commit is not None:
            self.publish(commit, commit.totals.rows - rows, time.monotonic() - begun)
        return commit

    def publish(self, commit: Commit, rows: int, step_s: float) -> None:
        rows_per_s = self.progress.rows_per_s if self.progress else 0.0
        plan = self.stepper.planner.plan
        parked = self.stepper.waiting.parked
        self.progress = progress_of(self.stream.name, commit, plan, rows, step_s, rows_per_s, parked)
        if self.stepper.setting.results and not self.stepper.reset_folders:
            deliver_results(self.stepper.setting.results[0], commit, self.sinks)

    def tick(self, clock_us: int | None) -> Commit | None:
        """Run a step over files."""
        return self.step(Input(clock_us))

    def rows_step(
        self, dataframe: Any, clock_us: int | None, batch: int | None, offsets: tuple[str, ...], ended: bool
    ) -> None:
        """Run a step over the rows of a DataFrame."""
        sample = None if dataframe is None else partial(self.sample, dataframe)
        self.step(Input(clock_us, batch, offsets, dataframe, sample, ended))

    def sample(self, dataframe: Any) -> pa.Table:
        rows = dataframe.limit(SAMPLE_ROWS // 10).toArrow()
        return convert_table(rows, self.stream.columns, self.stream.zone).table

    def close(self) -> None:
        self.stepper.close()
