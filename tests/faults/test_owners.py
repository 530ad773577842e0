"""Who owns a state, and whose results a folder holds: engines that sleep, that start together, copies, mix-ups.

Real processes, whose tasks run in themselves instead of on Spark. Whatever happens: no row in the results is wrong or
there twice, and an engine that can't go on says why.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.engine.registry import ask
from headrace.storage.store import MissingObjectError, is_remote, open_store
from tests.faults.in_process import BEAT, KEPT_RECORDS, STOP_AT
from tests.faults.job import FIXED, Asked, Job, Stay, compare
from tests.faults.processes import process_of
from tests.faults.results import Watcher
from tests.faults.runs import Run, wait_for
from tests.faults.s3 import BUCKET, s3_server, use_server

SEED = 8
UNKNOWN_US = 1 << 62
"""No window is expected of a query whose first one was not announced; those that come are compared."""
ERROR = re.compile(r"^error\[(?P<code>[\w-]+)\]: ", re.MULTILINE)
BEATS = "0.2:5"
"""Seconds between two signs of life, and until an owner without one is taken for dead."""


class Stage:
    """A job whose results are watched, and the runs that must not outlive the test.

    States are below the folders of their jobs, or below the URL of a store.
    """

    def __init__(self, root: Path, url: str | None = None) -> None:
        self.url = url
        self.job = self.new_job(root / "job", seed=SEED)
        self.watcher = Watcher(self.job.results)
        self.runs: list[Run] = []

    def new_job(self, root: Path, **places: object) -> Job:
        root.mkdir(parents=True, exist_ok=True)
        if self.url is not None:
            places["state"] = f"{self.url}/{root.name}"
        job = Job(root, **places)  # type: ignore[arg-type]
        job.write(trigger="20 ms", step_bytes=1)
        return job

    def start(self, *options: str, job: Job | None = None, variables: Mapping[str, str] | None = None) -> Run:
        run = Run(job or self.job, *options, variables=variables)
        self.runs.append(run)
        return run

    def wait_for_step(self, step: int) -> None:
        wait_for(lambda: self.job.step >= step, f"step {step}: {self.runs[-1].text}", self.watcher.look)

    def wait_for_end(self, run: Run) -> None:
        wait_for(lambda: not run.is_running, f"its end: {run.text}", self.watcher.look)

    def finish(self, *stays: Stay) -> None:
        """Run to the end of the input: everything is DuckDB's."""
        last = self.start("--bounded")
        assert last.wait() == 0, last.text
        self.check(*stays, is_whole=True)

    def check(self, *stays: Stay, is_whole: bool) -> None:
        self.watcher.look(thorough=True)
        assert not self.watcher.problems
        found = compare(self.job, [*FIXED, *stays])
        assert not found.differences
        assert not (is_whole and found.missing)

    def check_refused(self, run: Run, *codes: str) -> None:
        """It ended with a clear error, and nothing that was visible is another or gone."""
        assert run.wait() == 1, run.text
        found = ERROR.search(run.text)
        assert found is not None, run.text
        assert found["code"] in codes, run.text
        self.check(is_whole=False)

    def check_refused_or_right(self, run: Run) -> None:
        if run.wait() != 0:
            assert ERROR.search(run.text), run.text
        self.check(is_whole=False)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3") / "data") as address:
        yield address


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.slow)])
def stage(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    url = None
    if request.param == "s3":
        use_server(request.getfixturevalue("server"), monkeypatch.setenv)
        monkeypatch.setenv(BEAT, BEATS)
        url = f"s3://{BUCKET}/{uuid4().hex}"
    stage = Stage(tmp_path, url)
    yield stage
    for run in stage.runs:
        run.kill()


on_both = pytest.mark.parametrize("stage", ["disk", "s3"], indirect=True)
"""In the short form too."""


def is_stopped(run: Run) -> bool:
    process = process_of(run.pid)
    return process is not None and process.state == "T"


# An engine that sleeps while another takes the state over


def wake(stage: Stage, sleeper: Run) -> None:
    """It must see that the state is another's, and end. If it slept in the middle of writing a file, the other has
    deleted that file: then it says that it can't write.
    """
    sleeper.child.send_signal(signal.SIGCONT)
    stage.wait_for_end(sleeper)
    stage.check_refused(sleeper, "state-lost", "state-write")


@on_both
@pytest.mark.parametrize("point", [pytest.param("before:4", marks=pytest.mark.slow), "after:4"])
def test_an_engine_that_slept_around_its_commit_changes_nothing(stage: Stage, point: str) -> None:
    """
    first    step 4, commit |........ sleeps ........| wakes: the state is lost
    second                      takes over, steps 5 to 8
    """
    stage.job.feed(4)
    first = stage.start(variables={STOP_AT: point})
    wait_for(lambda: is_stopped(first), "the first stops")
    second = stage.start("--take-over")
    stage.job.feed(4)
    stage.wait_for_step(8)
    wake(stage, first)
    assert second.stop() == 0, second.text
    stage.finish()


def test_an_engine_that_slept_before_it_collects_garbage_deletes_nothing(stage: Stage) -> None:
    """The second engine makes a plan that the first does not know, and the first collects garbage when it wakes."""
    stage.job.feed(5)
    first = stage.start(variables={STOP_AT: "after:5", KEPT_RECORDS: "5"})
    wait_for(lambda: is_stopped(first), "the first stops")
    asked = Asked(3, 1, 2, is_grouped=True)
    ask(stage.job.directory, "add", "later", asked.sql())
    second = stage.start("--take-over")
    stage.job.feed(4)
    stage.wait_for_step(9)
    wake(stage, first)
    assert second.stop() == 0, second.text
    stage.job.feed(4)
    stage.finish(Stay("later", asked, from_step=6, first_us=UNKNOWN_US))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 112))
def test_an_engine_sleeps_at_a_random_moment(stage: Stage, seed: int) -> None:
    source = random.Random(seed)
    stage.job.feed(source.randint(6, 12))
    first = stage.start()
    wait_for(lambda: first.has_committed, "its first commit")
    stage.wait_for_step(stage.job.step + source.randint(0, 3))
    first.child.send_signal(signal.SIGSTOP)
    second = stage.start("--take-over")
    stage.job.feed(source.randint(12, 16))
    wait_for(lambda: second.has_committed, f"a commit of the second: {second.text}", stage.watcher.look)
    stage.job.feed(source.randint(0, 4))
    wake(stage, first)
    stage.job.feed()
    stage.wait_for_step(stage.job.step + 1)
    assert second.stop() == 0, second.text
    stage.finish()


# Two at once


@on_both
def test_of_two_engines_that_start_together_one_runs(stage: Stage) -> None:
    """A store has no locks: both may begin there, and the first commit decides."""
    stage.job.feed(4)
    runs = [stage.start(), stage.start()]
    wait_for(lambda: not all(run.is_running for run in runs), "one of them ends", stage.watcher.look)
    refused, owner = sorted(runs, key=lambda run: run.is_running)
    stage.check_refused(refused, "state-in-use", *(["state-lost"] if stage.url else []))
    stage.wait_for_step(4)
    third = stage.start()
    stage.check_refused(third, "state-in-use")
    assert re.search(r"another engine \(process \d+ on .*\) runs", third.text)
    assert owner.stop() == 0, owner.text
    stage.finish()


# Copies


def copy_state(source: str, target: str) -> None:
    """Copy it as `cp -r` would: what vanishes meanwhile is not copied."""
    if is_remote(source):
        copy_objects(source, target)
        return
    for path in [Path(source), *sorted(Path(source).rglob("*"))]:
        copy = Path(target, path.relative_to(source))
        try:
            if path.is_dir():
                copy.mkdir(parents=True)
            else:
                shutil.copy2(path, copy)
        except FileNotFoundError:
            continue


def copy_objects(source: str, target: str) -> None:
    theirs, ours = open_store(source), open_store(target)
    for entry in theirs.list(""):
        try:
            ours.put(entry.name, theirs.get(entry.name))
        except MissingObjectError:
            continue


def delete_state(place: str) -> None:
    if is_remote(place):
        store = open_store(place)
        store.delete([entry.name for entry in store.list("")])
    else:
        shutil.rmtree(place)


def move_state(source: str, target: str) -> None:
    copy_state(source, target)
    delete_state(source)


def copied_while_it_runs(stage: Stage, **places: str) -> tuple[Run, Job]:
    """The copy takes all that is there in one step: its results would have other names."""
    stage.job.feed(8)
    first = stage.start()
    stage.wait_for_step(3)
    copy = stage.new_job(stage.job.root.parent / "copy", input=str(stage.job.input), **places)
    copy.write(step_bytes=1 << 30)
    copy_state(stage.job.state, copy.state)
    return first, copy


@pytest.mark.slow
def test_a_copy_of_a_live_state_is_as_good_or_refused(stage: Stage) -> None:
    """Results of its own: those of the steps before the copy are not there, and no window is another."""
    first, copy = copied_while_it_runs(stage)
    shutil.copytree(stage.job.results, copy.results, ignore=shutil.ignore_patterns(".*"))
    run = stage.start("--bounded", job=copy)
    if run.wait() != 0:
        assert ERROR.search(run.text), run.text
    assert not compare(copy).differences
    assert first.stop() == 0, first.text
    stage.finish()


def test_a_copy_of_a_live_state_can_not_write_into_the_same_results(stage: Stage) -> None:
    first, copy = copied_while_it_runs(stage, results=str(stage.job.results))
    stage.check_refused_or_right(stage.start("--once", job=copy))
    stage.job.feed(2)
    stage.wait_for_step(10)
    assert first.stop() == 0, first.text
    stage.finish()


@pytest.mark.slow
def test_swapped_states_of_two_jobs_are_refused_or_harmless(stage: Stage) -> None:
    other = stage.new_job(stage.job.root.parent / "other", seed=SEED + 1)
    for job in (stage.job, other):
        job.feed(6)
        assert stage.start("--once", job=job).wait() == 0
        job.feed(3)
    others = Watcher(other.results)
    others.look()
    swap(stage.job.state, other.state)
    stage.watcher.look()
    for job in (stage.job, other):
        run = stage.start("--once", job=job)
        assert run.wait() == 1, run.text
        assert ERROR.search(run.text), run.text
    others.look(thorough=True)
    assert not others.problems
    stage.check(is_whole=False)
    swap(stage.job.state, other.state)
    stage.finish()
    assert stage.start("--bounded", job=other).wait() == 0
    found = compare(other)
    assert (found.differences, found.missing) == ([], [])


def swap(first: str, second: str) -> None:
    aside = f"{first}-aside"
    move_state(first, aside)
    move_state(second, first)
    move_state(aside, second)


def test_two_jobs_with_one_results_folder_do_not_overwrite_each_other(stage: Stage) -> None:
    other = stage.new_job(stage.job.root.parent / "other", seed=SEED + 1, results=str(stage.job.results))
    stage.job.feed(6)
    other.feed(6)
    assert stage.start("--once").wait() == 0
    stage.watcher.look()
    run = stage.start("--once", job=other)
    assert run.wait() == 1, run.text
    assert ERROR.search(run.text), run.text
    stage.finish()


# Older and empty states beside newer results


@pytest.mark.parametrize("is_empty", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["older", "empty"])
def test_an_older_state_beside_newer_results_is_refused_or_harmless(stage: Stage, is_empty: bool) -> None:
    """The steps of the second time are cut otherwise: windows that are there would come again under other names."""
    job = stage.job
    job.feed(5)
    assert stage.start("--once").wait() == 0
    older, newer = f"{job.state}-older", f"{job.state}-newer"
    copy_state(job.state, older)
    job.feed(6)
    assert stage.start("--once").wait() == 0
    stage.watcher.look()
    move_state(job.state, newer)
    if not is_empty:
        move_state(older, job.state)
    job.write(trigger="20 ms", step_bytes=1 << 30)
    stage.check_refused_or_right(stage.start("--once"))
    delete_state(job.state)
    move_state(newer, job.state)
    stage.finish()
