"""Who may write what: results belong to one state, a commit to one owner, and what a zombie deletes nobody can need."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from headrace.engine.registry import answer_to, ask, read_registry
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input, Stepper
from headrace.inputs import Source
from headrace.model.errors import UsageError
from headrace.sql import format_stream, parse_query
from headrace.storage import directory as directories
from headrace.storage import ownership
from headrace.storage.directory import commit_name, prepare
from headrace.storage.disk import DamagedError, StateWriteError, create_file, to_record
from headrace.storage.garbage import collect_garbage
from headrace.storage.ownership import LostOwnershipError
from headrace.storage.records import Commit, ResultFolder
from tests.engine.files import (
    CATALOG,
    QUERIES,
    batches,
    check_results,
    make_stepper,
    run_all,
    write_input,
    write_inputs,
)

STEPS = 5
pytestmark = pytest.mark.usefixtures("without_sync")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_inputs(tmp_path, STEPS)


def visible(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (root / "results").rglob("step-*")}


# Results


def test_a_staged_result_that_is_damaged_is_not_shown(root: Path) -> None:
    stepper = make_stepper(root)
    with patch.object(Stepper, "finish"):
        while stepper.commit is None or not stepper.commit.results:
            stepper.step(Input())
    stepper.close()
    file = stepper.commit.results[0]
    staged = root / "results" / file.staged.name
    table = pq.read_table(staged)
    pq.write_table(
        table.set_column(2, table.schema.field(2), pa.array([7] * len(table), table.schema.types[2])), staged
    )
    with pytest.raises(DamagedError, match="checksum"):
        make_stepper(root)
    assert not visible(root)


def test_results_of_another_state_are_left_alone(root: Path, tmp_path: Path) -> None:
    run_all(root)
    before = visible(root)
    shutil.rmtree(root / "state")
    (root / "identity").unlink()
    with pytest.raises(UsageError, match="belong to another state") as problem:
        make_stepper(root)
    assert problem.value.code == "results-owned"
    assert visible(root) == before
    make_stepper(root, reset_results=True).close()
    assert not visible(root)
    (aside,) = root.glob("results.old-*")
    assert sorted(path.read_bytes() for path in aside.rglob("step-*")) == sorted(before.values())
    run_all(root)
    check_results(root, STEPS)


def test_results_that_are_newer_than_the_state_are_left_alone(root: Path) -> None:
    """As when an older copy of the state is restored: its steps would be cut otherwise, and rows doubled."""
    stepper = make_stepper(root)
    for _ in range(3):
        stepper.step(Input())
    stepper.close()
    shutil.copytree(root / "state", root / "copy")
    run_all(root)
    before = visible(root)
    shutil.rmtree(root / "state")
    (root / "copy").rename(root / "state")
    with pytest.raises(UsageError, match="of a later step"):
        make_stepper(root)
    assert visible(root) == before
    make_stepper(root, reset_results=True).close()
    run_all(root)


def test_a_copy_of_a_state_that_goes_its_own_way_is_noticed(root: Path) -> None:
    """Both have the same identity and the same number of steps, but other rows in them."""
    stepper = make_stepper(root)
    for _ in range(2):
        stepper.step(Input())
    stepper.close()
    shutil.copytree(root / "state", root / "copy")
    run_all(root)
    shutil.rmtree(root / "state")
    (root / "copy").rename(root / "state")
    other = make_stepper_without_results(root)
    other.step_bytes = 1 << 30
    while other.step(Input(ended=True)) is not None:
        pass
    for _ in range(STEPS):
        ask(other.directory, "drop", "counts")
        ask(other.directory, "add", "counts", "SELECT count(*) AS n FROM r [RANGE '1 s']")
        other.step(Input())
    other.close()
    with pytest.raises(UsageError, match="results"):
        make_stepper(root)


def make_stepper_without_results(root: Path) -> Stepper:
    stepper = make_stepper(root, reset_results=True)
    shutil.rmtree(root / "results")
    (root / "results.old-1").rename(root / "results")
    stepper.setting, stepper.marks.folders = dataclasses.replace(stepper.setting, results=()), []
    return stepper


def test_results_without_a_mark_are_adopted_once(root: Path) -> None:
    stepper = make_stepper(root)
    for _ in range(3):
        stepper.step(Input())
    stepper.close()
    for mark in (root / "results").glob(".headrace-*"):
        mark.unlink()
    run_all(root)
    check_results(root, STEPS)


def stepper_of(root: Path, place: str, **options: Any) -> Stepper:
    """One of several streams of a job that show their results in one folder."""
    stream = CATALOG.streams[0]
    directory = prepare(root / "job" / place, format_stream(stream), 2)
    source, folders = Source(str(root / "input")), (ResultFolder(str(root / "results"), "parquet"),)
    setting = StreamSetting(uuid4().hex, str(directory.root), 2, CATALOG, "r", source, folders)
    stepper = Stepper(setting, InProcess(2), step_bytes=1, **options)
    if stepper.commit is None:
        stepper.changes.register({f"{place}_{name}": (sql, parse_query(sql, CATALOG)) for name, sql in QUERIES.items()})
    return stepper


def test_streams_that_share_a_folder_leave_each_others_results_alone(root: Path) -> None:
    """One is killed behind its commit; the other is further, and sweeps and collects garbage first."""
    first, second = stepper_of(root, "a"), stepper_of(root, "b")
    for _ in range(4):
        first.step(Input())
    for _ in range(2):
        second.step(Input())
    with patch.object(Stepper, "finish", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        second.step(Input())
    first.step(Input())
    first.close()
    second.close()
    committed = second.directory.last_commit()
    assert committed is not None
    assert committed.results
    stepper_of(root, "a").close()
    stepper_of(root, "b").close()
    assert all((root / "results" / file.name).exists() for file in committed.results)


def test_a_folder_of_several_streams_is_moved_aside_once(root: Path) -> None:
    """As after an older copy of the whole state was restored."""
    places = ("a", "b")
    for place in places:
        stepper = stepper_of(root, place)
        for _ in range(3):
            stepper.step(Input())
        stepper.close()
    shutil.copytree(root / "job", root / "copy")
    for place in places:
        stepper = stepper_of(root, place)
        while stepper.step(Input(ended=True)) is not None:
            pass
        stepper.close()
    shutil.rmtree(root / "job")
    (root / "copy").rename(root / "job")
    for place in places:
        with pytest.raises(UsageError, match="of a later step"):
            stepper_of(root, place)
    for place in places:
        stepper_of(root, place, reset_results=True).close()
    assert len(list(root.glob("results.old-*"))) == 1
    for place in places:
        stepper = stepper_of(root, place)
        while stepper.step(Input(ended=True)) is not None:
            pass
        stepper.close()


# Zombies


def test_what_a_zombie_deletes_nobody_needs(root: Path) -> None:
    """It wakes behind its commit, when another has gone on with a plan, a table and a registry of its own."""
    zombie = make_stepper(root)
    with patch("headrace.storage.garbage.LISTED_EVERY", 1):
        commit = zombie.step(Input())
        assert commit is not None
        second = make_stepper(root, take_over=True)
        query = "SELECT v, k, sum(x) AS x FROM r [RANGE '7 s'] WHERE x > 3 GROUP BY v, k"
        second.changes.register({"other": (query, parse_query(query, CATALOG))})
        second.changes.tables["close"] = second.keep_table(pa.table({"a": [1]}))
        second.begin(Input())
        collect_garbage(zombie.directory, None, commit, {})
        assert second.step(Input()) is not None
        collect_garbage(zombie.directory, None, commit, {})
        second.close()
        zombie.close()
        third = make_stepper(root)
        assert third.commit is not None
        assert third.directory.table(third.commit.tables["close"]).num_rows == 1
        while third.step(Input(ended=True)) is not None:
            pass
        third.close()


def test_a_plan_that_comes_back_is_written_again(root: Path) -> None:
    """Its first file may be deleted at any time, by the owner that dropped it."""
    stepper = make_stepper(root)
    first = stepper.step(Input())
    assert first is not None
    assert first.plan is not None
    plan = stepper.directory.plan(first.plan)
    forgotten = replace(first, plan=None, spans=(), plans=())
    stepper.commit = forgotten
    stepper.directory.keep_plan(plan, 2, stepper.live_plans)
    with patch("headrace.storage.garbage.LISTED_EVERY", 1):
        collect_garbage(stepper.directory, None, forgotten, {})
    directories.read_plan.cache_clear()
    assert stepper.directory.plan(first.plan) == plan
    stepper.close()


def test_a_zombie_does_not_replace_the_registry_of_the_new_owner(root: Path) -> None:
    zombie = make_stepper(root)
    zombie.step(Input())
    late = "SELECT count(*) AS wrong FROM r [RANGE '9 s']"
    second = make_stepper(root, take_over=True)
    second.changes.register(
        {"counts": (right := "SELECT count(*) AS n FROM r [RANGE '8 s']", parse_query(right, CATALOG))}
    )
    assert second.begin(Input()) is not None
    zombie.changes.register({"counts": (late, parse_query(late, CATALOG))})
    zombie.changes.take(zombie.registry, 0)
    commit = second.step(Input())
    assert commit is not None
    assert read_registry(second.directory, commit.registry).queries["counts"].sql == right
    second.close()
    zombie.close()


# The answer to a commit is lost


def lost(path: Path, data: bytes) -> bool:
    create_file(path, data)
    if path.parent.name == "commits":
        raise StateWriteError("state-write", f"can't write {path}: Input/output error")
    return True


def test_a_commit_whose_answer_was_lost_is_read_back(root: Path) -> None:
    stepper = make_stepper(root)
    with patch("headrace.storage.local_store.create_file", lost):
        commit = stepper.step(Input())
    assert commit is not None
    assert stepper.commit == commit
    assert stepper.step(Input()) is not None
    stepper.close()
    run_all(root)
    check_results(root, STEPS)


def test_a_commit_that_was_not_written_is_an_error(root: Path) -> None:
    stepper = make_stepper(root)

    def full(path: Path, data: bytes) -> bool:
        if path.parent.name == "commits":
            raise StateWriteError("state-write", f"can't write {path}: No space left on device")
        return create_file(path, data)

    with patch("headrace.storage.local_store.create_file", full), pytest.raises(StateWriteError):
        stepper.step(Input())
    stepper.close()
    run_all(root)
    check_results(root, STEPS)


def test_a_commit_of_an_older_owner_that_won_is_adopted(root: Path) -> None:
    """A zombie that had looked at the epoch before the new owner came creates the record first."""
    zombie = make_stepper(root)
    zombie.step(Input())
    journal = zombie.begin(Input())
    assert journal is not None
    theirs = zombie.build_commit(journal, zombie.run(journal, None))
    second = make_stepper(root, take_over=True)
    begun = second.pending
    assert begun == journal

    def raced(path: Path, data: bytes) -> bool:
        if path.parent.name == "commits" and not path.exists():
            create_file(path, to_record(theirs))
        return create_file(path, data)

    with patch("headrace.storage.local_store.create_file", raced):
        assert second.step(Input()) == theirs
    second.close()
    zombie.close()
    run_all(root)
    check_results(root, STEPS)


def test_a_commit_of_a_newer_owner_ends_this_one(root: Path) -> None:
    first = make_stepper(root)
    journal = first.begin(Input())
    assert journal is not None
    mine = first.build_commit(journal, first.run(journal, None))
    with patch.object(ownership, "newest_epoch", lambda store: mine.epoch):
        first.directory.store.create(commit_name(1), to_record(replace(mine, epoch=mine.epoch + 1)))
        with pytest.raises(LostOwnershipError):
            first.owner.write_commit(mine)
    first.close()


# Requests and files that are left behind


def test_a_damaged_request_is_put_aside(root: Path) -> None:
    stepper = make_stepper(root)
    stepper.step(Input())
    half = ask(stepper.directory, "add", "half", "SELECT count(*) AS n FROM r [RANGE '1 s']")
    odd = ask(stepper.directory, "add", "odd", "SELECT count(*) AS n FROM r [RANGE '1 s']")
    good = ask(stepper.directory, "add", "good", "SELECT count(*) AS n FROM r [RANGE '1 s']")
    inbox = stepper.directory.root / "inbox"
    path = inbox / f"{half}.json"
    path.write_bytes(path.read_bytes()[:50])
    (inbox / f"{odd}.json").write_bytes(to_record({"wrong": 1}))
    assert stepper.step(Input()) is not None
    answers: list[Any] = [answer_to(stepper.directory, request) for request in (half, odd, good)]
    assert [each.get("code") for each in answers] == ["damaged-request", "damaged-request", None]
    assert sorted(each.suffix for each in inbox.iterdir()) == [".damaged", ".damaged"]
    stepper.close()
    make_stepper(root).close()


def step_with_listing(stepper: Stepper) -> Commit | None:
    with patch("headrace.storage.garbage.LISTED_EVERY", 1):
        return stepper.step(Input(ended=stepper.number > STEPS))


def test_no_hidden_files_are_left_after_a_commit(root: Path) -> None:
    """The best rows of reducers, and results of attempts that were killed."""
    stepper = make_stepper(root)
    journal = stepper.begin(Input())
    assert journal is not None
    stepper.run(journal, None)
    while step_with_listing(stepper) is not None:
        live = {root / "state" / file.file.name for file in stepper.commit.slices} if stepper.commit else set()
        assert {path for path in (root / "state" / "slices").rglob("*") if path.is_file()} == live
        assert not [path for path in root.rglob("*.staged") if path.is_file()]
        assert not [path for path in root.rglob(".staged/*/*") if path.is_file()]
        assert not list(root.glob("state/staged/*"))
    stepper.close()


def test_names_are_on_the_disk_before_the_record_that_needs_them(tmp_path: Path) -> None:
    """Those of folders in the folders above them, and those of staged results."""
    for number, rows in enumerate(batches(STEPS)):
        write_input(tmp_path / "input", rows, number)
    events: list[str] = []
    link = os.link

    def linked(source: Path, target: Path) -> None:
        events.append(f"made {Path(target).relative_to(tmp_path)}")
        link(source, target)

    def synced(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_relative_to(tmp_path):
            events.append(f"synced {path.relative_to(tmp_path)}")

    with patch("os.fsync", synced), patch("os.link", linked):
        stepper = make_stepper(tmp_path)
        while stepper.commit is None or not stepper.commit.results:
            stepper.step(Input())
        stepper.close()
    first, last = (
        events.index("made state/commits/000000001.json"),
        events.index(f"made state/commits/{stepper.commit.step:09}.json"),
    )
    assert {"synced .", "synced state"} <= set(events[:first])
    before = events[events.index(f"made state/journal/{stepper.commit.step:09}.json") : last]
    assert {"synced results", "synced results/.staged/state"} <= set(before)
    assert before.index("synced results/.staged/state") > max(
        place for place, event in enumerate(before) if event.startswith("synced results/.staged/state/")
    )
