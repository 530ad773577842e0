"""A streaming job on a cluster with its state in an object store, while parts of both fail.

Whatever happens: every window is as DuckDB says, no row is there twice, one engine owns the state, and a run that ended
leaves no more objects behind than one that nothing happened to. A file is a second of the stream and a step; windows
are longer, so that each step takes slices over from the one before.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.faults.cluster import require_cluster
from tests.faults.cluster_job import AHEAD, SPARE, WORKERS, Place, Stage, open_place
from tests.faults.job import FIRST, Job, compare
from tests.faults.processes import process_of
from tests.faults.requirements import require
from tests.faults.results import visible_files
from tests.faults.runs import ON_SPARK, Run, wait_for
from tests.faults.s3 import require_server

pytestmark = [pytest.mark.slow, pytest.mark.jvm]
FILES = 16
BEFORE, AFTER = 9, 3
"""Files before and after something happens; `AHEAD` more arrive meanwhile."""
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.task.duration.threshold": "2s",
}

OVERTAKEN = "another attempt succeeded"
"""Executors log why a task is killed."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    require_cluster()
    require_server()
    with open_place(tmp_path_factory.mktemp("place")) as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(place: Place) -> Iterator[tuple[Stage, Counter[str]]]:
    """A job that nothing happens to, and the objects that it leaves behind."""
    stage = Stage(place, "undisturbed")
    try:
        run = stage.start_streaming(BEFORE)
        stage.advance(FILES - BEFORE)
        stage.wait_for_answers()
        yield stage, stage.finish(run)
    finally:
        stage.close()


@pytest.fixture
def kinds(undisturbed: tuple[Stage, Counter[str]]) -> Counter[str]:
    return undisturbed[1]


@pytest.fixture
def make_stage(place: Place, request: pytest.FixtureRequest) -> Iterator[Callable[..., Stage]]:
    """Two workers that run, a store without faults, and a job of this name. All of it is ended after the test."""
    place.cluster.ensure_workers(*WORKERS)
    place.store.faults.reset()
    stages = []

    def make(**settings: str) -> Stage:
        name = re.sub(r"\W+", "-", request.node.name.removeprefix("test_")).strip("-")
        stages.append(Stage(place, name, settings=settings))
        return stages[-1]

    yield make
    place.store.faults.reset()
    for stage in stages:
        stage.close()


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    return make_stage()


def rows_in(folder: Path) -> list[str]:
    return sorted(repr(row) for path in visible_files(folder) for row in pq.ParquetFile(path).read().to_pylist())


def test_results_are_those_of_local_mode(undisturbed: tuple[Stage, Counter[str]], tmp_path: Path) -> None:
    cluster_job = undisturbed[0].job
    local = Job(tmp_path, input=str(cluster_job.input))
    local.write(step_bytes=1)
    run = Run(local, "--bounded", module=ON_SPARK)
    try:
        assert run.wait() == 0, run.text
    finally:
        run.kill()
    found = compare(local)
    assert (found.differences, found.missing) == ([], [])
    for query in FIRST:
        ours = rows_in(local.results / query)
        assert ours
        assert rows_in(cluster_job.results / query) == ours


# Kills


def test_an_executor_is_killed(stage: Stage, kinds: Counter[str]) -> None:
    run = stage.start_streaming(BEFORE)
    cluster = stage.place.cluster
    (executor,) = cluster.executors("worker1")
    stage.job.feed(AHEAD)
    assert executor.kill()
    stage.wait_for(lambda: any(other.pid != executor.pid for other in cluster.executors("worker1")), "another executor")
    stage.advance(AFTER)
    stage.wait_for_answers()
    stage.finish(run, kinds)


def test_a_worker_is_killed(stage: Stage, kinds: Counter[str]) -> None:
    run = stage.start_streaming(BEFORE)
    stage.job.feed(AHEAD)
    stage.place.cluster.stop_worker("worker1", signal.SIGKILL)
    stage.advance(AFTER)
    stage.wait_for_answers()
    stage.finish(run, kinds)


def test_the_driver_is_killed(stage: Stage, kinds: Counter[str]) -> None:
    """Its JVM and its executors end by themselves. The next driver waits until the state is free."""
    first = stage.start_streaming(BEFORE)
    stage.job.feed(AHEAD)
    java = first.targets()["jvm"]
    assert java
    first.child.kill()
    wait_for(lambda: not any(process.is_alive for process in java), "the end of its JVM", stage.watcher.look)
    second = stage.start()
    stage.advance(AFTER)
    stage.wait_for_answers()
    assert first.wait() == -signal.SIGKILL
    stage.finish(second, kinds)


# Executors that are slow, come and go


def test_frozen_stragglers_are_overtaken(make_stage: Callable[..., Stage], kinds: Counter[str]) -> None:
    """The Python workers of an executor sleep through some steps. When they wake up, what they write is of no use."""
    stage = make_stage(**SPECULATION)
    run = stage.start_streaming(BEFORE)
    cluster = stage.place.cluster
    before = cluster.count_in_logs(OVERTAKEN)
    frozen = cluster.python_workers("worker1")
    assert frozen
    try:
        for process in frozen:
            assert process.send(signal.SIGSTOP)
        stage.wait_for(lambda: all(is_frozen_or_gone(process.pid) for process in frozen), "they are frozen")
        stage.job.feed(AHEAD)
        stage.wait_for_answers()
    finally:
        for process in frozen:
            process.send(signal.SIGCONT)
    stage.advance(AFTER)
    stage.wait_for_answers()
    stage.finish(run, kinds)
    assert cluster.count_in_logs(OVERTAKEN) > before


def is_frozen_or_gone(pid: int) -> bool:
    process = process_of(pid)
    return process is None or process.state in "TZX"


def test_workers_come_and_go(stage: Stage, kinds: Counter[str]) -> None:
    """
    worker1  ----------------x
    worker2  --------------------------x
    worker3            -------------------------
    """
    run = stage.start_streaming(BEFORE)
    cluster = stage.place.cluster
    stage.job.feed(AHEAD)
    cluster.stop_worker("worker1")
    cluster.start_worker(SPARE)
    stage.wait_for(lambda: bool(cluster.executors(SPARE)), "an executor on the third worker")
    stage.advance(AFTER)
    stage.job.feed(2)
    cluster.stop_worker("worker2")
    stage.advance(AFTER)
    stage.wait_for_answers()
    stage.finish(run, kinds)


# The store


def test_a_slow_store_changes_nothing(stage: Stage, kinds: Counter[str]) -> None:
    stage.place.store.faults.change(delay_s=0.05)
    run = stage.start_streaming(BEFORE)
    stage.advance(FILES - BEFORE)
    stage.wait_for_answers()
    stage.finish(run, kinds)


def test_a_store_that_refuses_changes_nothing(stage: Stage, kinds: Counter[str]) -> None:
    faults = stage.place.store.faults
    before = faults.change(refuse_every=5).counts["refuse"]
    run = stage.start_streaming(BEFORE)
    stage.advance(FILES - BEFORE)
    stage.wait_for_answers()
    stage.finish(run, kinds)
    assert faults.read().counts["refuse"] > before + FILES


def test_a_store_that_hangs_changes_nothing(stage: Stage, kinds: Counter[str]) -> None:
    faults = stage.place.store.faults
    run = stage.start_streaming(BEFORE)
    before = faults.change(hang=2).counts["hang"]
    stage.advance(AFTER)
    stage.wait_for(lambda: faults.read().counts["hang"] == before + 2, "requests that hang")
    stage.wait_for_answers()
    stage.finish(run, kinds)


def test_a_store_that_loses_answers_of_puts_changes_nothing(stage: Stage, kinds: Counter[str]) -> None:
    faults = stage.place.store.faults
    before = faults.change(lose_puts_every=3).counts["lose"]
    run = stage.start_streaming(BEFORE)
    stage.advance(FILES - BEFORE)
    stage.wait_for_answers()
    stage.finish(run, kinds)
    assert faults.read().counts["lose"] > before + FILES


# Two drivers


def test_of_two_drivers_one_owns_the_state(stage: Stage, kinds: Counter[str]) -> None:
    """The second is refused; the third takes the state over, and the first ends with its next step."""
    first = stage.start_streaming(BEFORE)
    second = stage.start(node="driver2")
    assert second.wait() == 1, second.text
    assert "error[state-in-use]" in second.text
    assert first.is_running, first.text
    third = stage.start("--take-over", node="driver2")
    stage.wait_for(lambda: owns_state(third), "the third begins")
    stage.job.feed(AHEAD)
    assert first.wait() == 1, first.text
    assert "error[state-lost]" in first.text
    stage.advance(AFTER)
    stage.wait_for_answers()
    stage.finish(third, kinds)


def owns_state(run: Run) -> bool:
    return "the state is split into" in run.text


# Reducers


@pytest.fixture
def rescale() -> None:
    """Skip where the command line can't change the number of reducers."""
    shown = subprocess.run([sys.executable, "-m", "headrace", "rescale", "--help"], capture_output=True, check=False)
    require("rescale", None if shown.returncode == 0 else "`headrace rescale` is not a command of this version")


@pytest.mark.usefixtures("rescale")
def test_reducers_change_in_the_middle_of_windows(stage: Stage, kinds: Counter[str]) -> None:
    """2 -> 5 -> 3, while each step takes slices over."""
    run = stage.start_streaming(BEFORE)
    for reducers in (5, 3):
        stage.job.feed(2)
        changed = stage.command("rescale", str(stage.job.file), "--reducers", str(reducers))
        assert changed.returncode == 0, changed.stdout
        stage.advance(AFTER)
    stage.wait_for_answers()
    stage.finish(run, kinds)
