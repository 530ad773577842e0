"""What a step costs on a cluster: objects and round trips of a step, the work of the driver, and a slow store.

The store is a real S3 server behind a proxy that delays every request and counts those that write.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.otf import Watch, engine_over
from benchmarks.peers import THREADS
from benchmarks.state_store import time_two_stages
from benchmarks.stream import LOW, Feed, Size, script_of
from benchmarks.tables import Document, show_figures
from headrace.cli.progress import Report, progress_bar
from headrace.engine.run import now_us
from headrace.engine.step import runner
from headrace.engine.step.runner import InProcess
from headrace.spark.engine import Engine
from headrace.spark.session import session
from headrace.storage.directory import commit_name
from tests.faults.cluster_job import Stage, open_place
from tests.faults.job import Job
from tests.faults.results import visible_files
from tests.faults.runs import ON_SPARK, Run
from tests.faults.s3 import BUCKET, ProxyControl, client_environment, s3_server

OLD_QUOTIENT = 1.86
"""Time of a step of 256 otf-low queries over that of an empty job of two stages, with the layout of the state before
this benchmark: a file for each result, and a list of all files in each commit. The median of four warm rounds on an
idle machine with two cores; they were 1.79, 1.83, 1.88 and 1.96.
"""
QUERIES = 256
WARM_STEPS = 10
ROUNDS = 4
SLOW_S, SLOWER_S = 0.05, 0.15
FEW, MANY = 4, 64
FILES = 16
"""Of the job on a cluster; each is a step."""


def measure(steps: int, step_rows: int, queries: int) -> Document:
    size = Size(steps, step_rows, 5_000.0)
    figures: dict[str, Any] = {"steps": steps, "step_rows": step_rows, "queries": queries}
    with tempfile.TemporaryDirectory(prefix="headrace-cluster-") as temporary:
        scratch = Path(temporary)
        with progress_bar("generating trades") as report:
            trades = Feed.generate("trades", replace(size, steps=steps + WARM_STEPS), scratch, report)
        script = script_of(LOW, queries)
        figures |= measure_commits(trades, script)
        with (
            s3_server(scratch / "s3") as server,
            slow_store(server, scratch / "control") as (address, store),
            # The workers of Spark have the environment that Java was started with.
            patch.dict(os.environ, client_environment(address)),
            session(f"local[{THREADS}]") as spark,
        ):
            figures |= measure_local(spark, trades, script, size)
            figures |= measure_store(spark, trades, script, size, store)
        figures["cluster_differences"] = compare_cluster(scratch / "cluster")
    return figures


show = show_figures


@contextmanager
def slow_store(server: str, control: Path) -> Iterator[tuple[str, ProxyControl]]:
    """Run a proxy before a server, in a process of its own; yield its address and what sets its delay."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "tests.faults.s3", server, address, str(control)]
    with subprocess.Popen(command) as proxy:
        store = ProxyControl(control)
        try:
            while not store.is_ready():
                proxy.poll()
                if proxy.returncode is not None:
                    raise RuntimeError("the proxy did not start")
                time.sleep(0.05)
            yield address, store
        finally:
            proxy.terminate()


# Steps


def run_steps(
    engine: Engine, feed: Feed, steps: int, report: Report, on_warm: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """Run steps of one file each from a new state; return the median seconds of a step, and those of its stages."""
    feed.empty()
    taken_s = []
    with engine.run() as run:
        (pipeline,) = run.pipelines
        watch = Watch(pipeline.stepper)
        warm: Mapping[str, float] = {}
        for step in range(WARM_STEPS + steps):
            report(step, WARM_STEPS + steps)
            if step == WARM_STEPS:
                warm = watch.stages
                on_warm()
            feed.give()
            begun_s = time.perf_counter()
            commit = pipeline.tick(now_us())
            taken_s.append(time.perf_counter() - begun_s)
            if commit is None:
                raise RuntimeError("a step took no file")
        stages = {name: (value - warm[name]) / steps for name, value in watch.stages.items()}
    return {"step": median(taken_s[WARM_STEPS:]), **stages}


def engine_at(spark: SparkSession, feed: Feed, script: Mapping[str, str], state: str, reducers: int) -> Engine:
    """Return an engine with a new state; results stay there."""
    engine = engine_over(spark, feed.files, {})
    engine.state = f"{state}/{uuid4().hex}"
    engine.options = replace(engine.options, reducers=reducers, results="1 hour")
    for name, sql in script.items():
        engine.add(name, sql)
    return engine


def measure_local(spark: SparkSession, feed: Feed, script: Mapping[str, str], size: Size) -> dict[str, Any]:
    """Compare steps with empty jobs, with result files for people as a job writes them by default."""
    quotients = []
    for place in range(ROUNDS):
        before_ms = time_two_stages(spark, size.steps)
        engine = engine_at(spark, feed, script, str(feed.files.folder / "state"), THREADS)
        engine.options = replace(engine.options, results=None)
        with progress_bar(f"steps on a disk, round {place + 1} of {ROUNDS}") as report:
            step_ms = 1_000 * run_steps(engine, feed, size.steps, report)["step"]
        after_ms = time_two_stages(spark, size.steps)
        quotients.append(step_ms / ((before_ms + after_ms) / 2))
    warm = median(quotients[1:])
    with progress_bar(f"{FEW} reducers on a disk") as report:
        stages = run_steps(
            engine_at(spark, feed, script, str(feed.files.folder / "state"), FEW), feed, size.steps, report
        )
    driver_s = sum(stages[name] for name in ("begin", "plan", "commit", "finish"))
    return {
        "local_quotients": quotients,
        "local_quotient": warm,
        "local_slowdown": warm / OLD_QUOTIENT,
        "step_ms_r4": 1_000 * stages["step"],
        "driver_ms_256_r4": 1_000 * driver_s,
    }


def measure_store(
    spark: SparkSession, feed: Feed, script: Mapping[str, str], size: Size, store: ProxyControl
) -> dict[str, Any]:
    state, counts = f"s3://{BUCKET}/job", []
    with progress_bar(f"{FEW} reducers in a store") as report:
        engine = engine_at(spark, feed, script, state, FEW)
        run_steps(engine, feed, size.steps, report, lambda: counts.append(store.read().puts))
    objects = (store.read().puts - counts[0]) / size.steps
    step_s = {}
    for delay_s in (0.0, SLOW_S, SLOWER_S):
        store.change(delay_s=delay_s)
        with progress_bar(f"a store that takes {1_000 * delay_s:.0f} ms") as report:
            engine = engine_at(spark, feed, script, state, THREADS)
            step_s[delay_s] = run_steps(engine, feed, size.steps, report)["step"]
    return {
        "objects_per_step_256_r4": objects,
        "step_s_store": step_s[0.0],
        "step_s_store_50ms": step_s[SLOW_S],
        "sequential_round_trips": (step_s[SLOWER_S] - step_s[SLOW_S]) / (SLOWER_S - SLOW_S),
    }


class InProcessEngine(Engine):
    """The engine without Spark, for what does not depend on it."""

    def make_runner(self) -> InProcess:
        return InProcess(THREADS)

    def count_cores(self) -> int:
        return THREADS

    def check_session(self) -> None:
        """There is no session."""


class TaskTimer:
    """The processor seconds that tasks take in this process."""

    def __init__(self) -> None:
        self.taken_s = {"map_units": 0.0, "reduce_step": 0.0}

    def wrap(self, name: str) -> Callable[..., Any]:
        inner = getattr(runner, name)

        def outer(*arguments: Any) -> Any:
            begun_s = time.thread_time()
            result = list(inner(*arguments)) if name == "map_units" else inner(*arguments)
            self.taken_s[name] += time.thread_time() - begun_s
            return result

        return outer


def measure_commits(feed: Feed, script: Mapping[str, str]) -> dict[str, Any]:
    """Compare the commit records of few and of many reducers after the same steps, and time the tasks of few."""
    sizes, figures = {}, {}
    for reducers in (MANY, FEW):
        engine = engine_at(None, feed, script, str(feed.files.folder / "state"), reducers)  # type: ignore[arg-type]
        engine.__class__ = InProcessEngine
        feed.empty()
        timer = TaskTimer()
        names = [patch.object(runner, name, timer.wrap(name)) for name in timer.taken_s]
        with progress_bar(f"commits of {reducers} reducers") as report, engine.run() as run, names[0], names[1]:
            (pipeline,) = run.pipelines
            for step in range(2 * WARM_STEPS):
                report(step, 2 * WARM_STEPS)
                feed.give()
                commit = pipeline.tick(now_us())
                if step == WARM_STEPS:
                    warm_s, warm_windows = dict(timer.taken_s), commit.windows if commit else 0
        assert commit is not None
        sizes[reducers] = len(pipeline.stepper.directory.store.get(commit_name(commit.step)))
        rows = (WARM_STEPS - 1) * feed.step_rows
        figures["row_us"] = 1e6 * (timer.taken_s["map_units"] - warm_s["map_units"]) / rows
        figures["window_ms"] = (
            1e3 * (timer.taken_s["reduce_step"] - warm_s["reduce_step"]) / max(1, commit.windows - warm_windows)
        )
    return {
        "commit_bytes_r4": sizes[FEW],
        "commit_bytes_r64": sizes[MANY],
        "commit_bytes_growth": sizes[MANY] / sizes[FEW],
        **figures,
    }


# A cluster


def compare_cluster(folder: Path) -> int | None:
    """Run a job on two workers in network namespaces, and in local mode; return how many result rows differ. None where
    this user can't make namespaces.
    """
    if os.geteuid() != 0:
        return None
    (folder / "local").mkdir(parents=True)
    with progress_bar("two workers in network namespaces") as report, open_place(folder) as place:
        stage = Stage(place, "benchmark")
        try:
            report(0, 2)
            run = stage.start_streaming(FILES // 2)
            stage.advance(FILES - FILES // 2)
            stage.wait_for_answers()
            stage.finish(run)
            report(1, 2)
            local = Job(folder / "local", input=str(stage.job.input))
            local.write(step_bytes=1)
            local_run = Run(local, "--bounded", module=ON_SPARK)
            if local_run.wait() != 0:
                raise RuntimeError(local_run.text)
            return sum((count_rows(local.results) - count_rows(stage.job.results)).values())
        finally:
            stage.close()


def count_rows(folder: Path) -> Counter[str]:
    """Return how often each row is in the files of results."""
    tables = (pq.ParquetFile(path).read() for path in visible_files(folder))
    return Counter(repr(row) for table in tables for row in table.to_pylist())
