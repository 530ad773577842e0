"""One stream of a run: the stepper that owns its state, the source of its rows, and the sinks of its results."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.plan_in_force import SAMPLE_ROWS
from headrace.engine.progress import Progress, progress_of
from headrace.engine.sinks.delivery import Delivery, FileTarget
from headrace.engine.step.stepper import Input, Stepper
from headrace.inputs.conversion import convert_table
from headrace.model.schema import Stream
from headrace.storage.garbage import LISTED_EVERY, collect_records
from headrace.storage.records import Commit
from headrace.storage.results import read_sections, sections_of_query


class Pipeline:
    """Steps of one stream. Its rows are files, which the stepper lists, or a DataFrame of Spark."""

    def __init__(
        self,
        stepper: Stepper,
        dataframe: Any,
        delivery: Delivery,
        results_us: int,
        needed_step: Callable[[Stepper], int],
    ) -> None:
        """Make the pipeline of a stepper. Results are kept for `results_us`, and since the oldest step that others may
        still read.
        """
        self.stepper = stepper
        self.dataframe = dataframe
        self.delivery = delivery
        self.results_us = results_us
        self.needed_step = needed_step
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
        self.delivery.notify(commit)
        if commit.step % LISTED_EVERY == 0:
            self.collect_records(commit)

    def collect_records(self, commit: Commit) -> None:
        """Delete results that all sinks and readers have, and that were kept for long enough."""
        if commit.clock_us is not None:
            delivered = self.delivery.step
            needed = min(self.needed_step(self.stepper), commit.step if delivered is None else delivered + 1)
            collect_records(self.stepper.directory, commit, needed, commit.clock_us - self.results_us)

    def results(self, query: str) -> list[pa.Table]:
        """Return the results of a query, step by step. What the state does not keep any more is read from the Parquet
        files of a sink, if there is one.
        """
        directory, steps = self.stepper.directory, self.stepper.directory.steps()
        tables = [pq.read_table(path) for path in self.older_files(query, steps[0] if steps else 0)]
        for step in steps:
            for name, part in sections_of_query(directory, directory.commit(step), query):
                tables += read_sections(directory.store, name, [(part.begin, part.end, part.digest)])
        return tables

    def older_files(self, query: str, step: int) -> list[Path]:
        """Return the Parquet files of steps before one."""
        targets = [follower.target for follower in self.delivery.followers]
        folders = [target.root for target in targets if isinstance(target, FileTarget) and target.format == "parquet"]
        files = sorted((folders[0] / query).glob("step-*.parquet")) if folders else []
        return [file for file in files if int(file.name[5:14]) < step]

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
        self.delivery.close()
        self.stepper.close()
