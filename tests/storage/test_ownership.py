"""Who may write what: results belong to one state, a commit to one owner, and what a zombie deletes nobody can need."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pyarrow as pa
import pytest
from msgspec.structs import replace

from headrace.engine.registry import answer_to, ask, read_registry
from headrace.engine.sinks.delivery import STAGING, file_name
from headrace.engine.sinks.sinks import ResultFolder
from headrace.engine.step.commit_record import changed_queries
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input, Stepper
from headrace.inputs import Source
from headrace.model.errors import UsageError
from headrace.sql import format_stream, parse_query
from headrace.storage import directory as directories
from headrace.storage.directory import Directory, commit_name, object_name, prepare
from headrace.storage.disk import TEMPORARY, DamagedError, StateWriteError, create_file, to_record
from headrace.storage.garbage import collect_garbage, slices_in
from headrace.storage.ownership import LostOwnershipError
from headrace.storage.records import Commit, Journal, ResultObject
from headrace.storage.results import read_sections, results_of, to_ipc
from tests.engine.file_stepper import FileStepper
from tests.engine.files import (
    CATALOG,
    JOINS_AT,
    LATER,
    QUERIES,
    check_results,
    make_stepper,
    run_all,
    write_input,
    write_inputs,
)
from tests.faults.damage import forget_everything

STEPS = 5
pytestmark = pytest.mark.usefixtures("without_sync")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_inputs(tmp_path, STEPS)


def visible(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (root / "results").rglob("step-*")}


# Results


def step_without_sinks(stepper: Stepper) -> Commit:
    """Run a step of a stepper that is killed before its sinks have the results."""
    commit = Stepper.step(stepper, Input())
    assert commit is not None
    return commit


def test_a_damaged_result_is_not_shown(root: Path) -> None:
    """Other values in a table that can be read: only its checksum says so."""
    stepper = make_stepper(root)
    while not (objects := results_of(stepper.directory, step_without_sinks(stepper))):
        pass
    stepper.close()
    results, store = objects[0], stepper.directory.store
    section = results.sections[0]
    (table,) = read_sections(store, results.object.name, [(section.begin, section.end, section.digest)])
    values = pa.array([7] * len(table), table.schema.types[2])
    changed = to_ipc(table.set_column(2, table.schema.field(2), values))
    data = store.get(results.object.name)
    assert changed != data[section.begin : section.end]
    assert len(changed) == section.end - section.begin
    store.put(results.object.name, data[: section.begin] + changed + data[section.end :])
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
    with patch("tests.engine.files.RESULTS", lambda _: ()):
        other = make_stepper(root)
    other.step_bytes = 1 << 30
    while other.step(Input(ended=True)) is not None:
        pass
    for _ in range(STEPS):
        ask(other.directory, "drop", "counts")
        ask(other.directory, "add", "counts", "SELECT count(*) AS n FROM r [RANGE '1 s']")
        other.step(Input())
    other.close()
    with pytest.raises(UsageError, match="are those of a copy of the state"):
        make_stepper(root)


def test_results_without_a_mark_are_adopted_once(root: Path) -> None:
    stepper = make_stepper(root)
    for _ in range(3):
        stepper.step(Input())
    stepper.close()
    for mark in (root / "results").glob(".headrace-*"):
        mark.unlink()
    run_all(root)
    check_results(root, STEPS)


def test_a_shown_file_that_is_deleted_is_not_missed(root: Path) -> None:
    """It is written again from the state only if the mark of the folder is deleted too."""
    stepper = make_stepper(root)
    for _ in range(JOINS_AT):
        stepper.step(Input())
    stepper.close()
    deleted = set(visible(root))
    assert deleted
    for path in deleted:
        path.unlink()
    run_all(root)
    assert visible(root)
    assert not deleted & visible(root).keys()
    (root / "results" / ".headrace-state.json").unlink()
    make_stepper(root).close()
    assert deleted <= visible(root).keys()
    check_results(root, STEPS)


def stepper_of(root: Path, place: str, **options: Any) -> Stepper:
    """One of several streams of a job that show their results in one folder."""
    stream = CATALOG.streams[0]
    directory = prepare(root / "job" / place, format_stream(stream))
    source, folders = Source(str(root / "input")), (ResultFolder(str(root / "results"), "parquet"),)
    setting = StreamSetting(uuid4().hex, str(directory.root), CATALOG, "r", source)
    stepper = FileStepper(setting, InProcess(2), folders, reducers=2, step_bytes=1, **options)
    if stepper.commit is None:
        stepper.changes.register({f"{place}_{name}": (sql, parse_query(sql, CATALOG)) for name, sql in QUERIES.items()})
    return stepper


def test_streams_that_share_a_folder_leave_each_others_results_alone(root: Path) -> None:
    """One is killed behind its commit; the other is further, and sweeps and collects garbage first. What the first was
    writing is deleted by itself only.
    """
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
    half_written = root / "results" / STAGING / "b" / "half"
    half_written.touch()
    stepper_of(root, "a").close()
    assert half_written.exists()
    stepper_of(root, "b").close()
    assert not half_written.exists()
    shown = [root / "results" / name for name in file_names(second.directory, committed)]
    assert shown
    assert all(path.exists() for path in shown)


def file_names(directory: Directory, commit: Commit) -> list[str]:
    """Return the files that a sink writes of a step."""

    def names(results: ResultObject) -> list[str]:
        sections = [section for section in results.sections if not section.is_candidate]
        return [f"{section.query}/{file_name(commit.step, results, section, 'parquet')}" for section in sections]

    return [name for results in results_of(directory, commit) for name in names(results)]


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


def sleep_behind_commit(stepper: Stepper) -> Callable[[], None]:
    """Run steps up to one that leaves slices behind; return what the stepper does when it wakes behind that commit."""
    finish, late = stepper.finish, []

    def finish_or_sleep(commit: Commit, journal: Journal | None, unneeded: Sequence[str] = ()) -> None:
        rest = partial(finish, commit, journal, unneeded)
        late.append(rest) if unneeded else rest()

    with patch.object(stepper, "finish", finish_or_sleep):
        while not late:
            assert stepper.step(Input()) is not None
    return late[0]


def test_what_a_zombie_deletes_nobody_needs(root: Path) -> None:
    """It wakes behind its commit, when another has gone on with a plan, a table and a registry of its own."""
    count = 3 * STEPS
    write_inputs(root, count)
    zombie = make_stepper(root)
    ask(zombie.directory, "add", "later", LATER["later"])
    with patch("headrace.storage.garbage.LISTED_EVERY", 1):
        wake = sleep_behind_commit(zombie)
        second = make_stepper(root, take_over=True)
        query = "SELECT v, k, sum(x) AS x FROM r [RANGE '7 s'] WHERE x > 3 GROUP BY v, k"
        second.changes.register({"other": (query, parse_query(query, CATALOG))})
        second.changes.tables["close"] = second.keep_table(pa.table({"a": [1]}))
        second.begin(Input())
        wake()
        assert second.step(Input()) is not None
        wake()
        second.close()
        zombie.close()
        forget_everything()
        third = make_stepper(root)
        assert third.commit is not None
        assert third.directory.table(third.commit.tables["close"]).num_rows == 1
        while third.step(Input(ended=third.number > count)) is not None:
            pass
        third.close()
    check_results(root, count)


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
        collect_garbage(stepper.directory, forgotten, {}, [])
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
            create_file(path, to_record(changed_queries(zombie.commit, theirs)))
        return create_file(path, data)

    with patch("headrace.storage.local_store.create_file", raced):
        assert second.step(Input()) == theirs
    second.close()
    zombie.close()
    run_all(root)
    check_results(root, STEPS)


def test_a_commit_that_is_adopted_is_finished(root: Path) -> None:
    """Its owner died right behind it. The request that it took is answered, and rejected rows are shown."""
    write_input(root / "input", [{"t": None, "k": "x", "v": 1, "x": 1.0}], 1)
    old = make_stepper(root)
    old.step(Input())
    request = ask(old.directory, "add", "later", LATER["later"])
    journal = old.begin(Input())
    assert journal is not None
    commit = old.build_commit(journal, old.run(journal, None))
    new = make_stepper(root, take_over=True)
    assert old.write_commit(commit)
    old.close()
    assert new.step(Input()) is not None
    answer = answer_to(new.directory, request)
    new.close()
    assert answer is not None
    assert "refused" not in answer
    assert list((root / "state" / "rejected").glob("*.parquet"))


def test_a_commit_of_a_newer_owner_ends_this_one(root: Path) -> None:
    first = make_stepper(root)
    journal = first.begin(Input())
    assert journal is not None
    mine = first.build_commit(journal, first.run(journal, None))
    theirs = to_record(replace(mine, epoch=mine.epoch + 1))
    first.directory.store.create(commit_name(1), theirs)
    with pytest.raises(LostOwnershipError):
        first.write_commit(mine)
    assert first.directory.store.get(commit_name(1)) == theirs
    first.close()


def test_a_zombie_may_commit_the_step_it_is_in_and_no_other(root: Path) -> None:
    """Nobody was quicker, and the new owner continues behind it: no step is lost, and none is there twice."""
    zombie = make_stepper(root)
    zombie.step(Input())
    journal = zombie.begin(Input())
    assert journal is not None
    mine = zombie.build_commit(journal, zombie.run(journal, None))
    second = make_stepper(root, take_over=True)
    assert zombie.write_commit(mine)
    with pytest.raises(LostOwnershipError):
        zombie.step(Input())
    assert second.step(Input()) == mine
    second.close()
    zombie.close()
    run_all(root)
    check_results(root, STEPS)


def test_a_journal_of_an_older_owner_that_won_is_run(root: Path) -> None:
    """A zombie that had looked at the epoch before the new owner came creates the journal first."""
    zombie = make_stepper(root)
    zombie.step(Input())
    second = make_stepper(root, take_over=True)
    with patch.object(zombie.owner, "check_held"):
        journal = zombie.begin(Input())
    assert journal is not None
    ask(second.directory, "drop", "counts")  # the journal that the second would write is another
    commit = second.step(Input())
    assert commit is not None
    assert (commit.step, commit.registry) == (journal.step, journal.registry)
    assert (journal.epoch, commit.epoch) == (zombie.owner.epoch, second.owner.epoch)
    assert second.directory.newest_journal(journal.step) == journal
    assert "counts" in commit.queries
    after = second.step(Input())
    assert after is not None
    assert "counts" not in after.queries
    second.close()
    zombie.close()


def test_a_journal_of_a_newer_owner_ends_this_one(root: Path) -> None:
    zombie = make_stepper(root)
    zombie.step(Input())
    second = make_stepper(root, take_over=True)
    journal = second.begin(Input())
    with patch.object(zombie.owner, "check_held"), pytest.raises(LostOwnershipError):
        zombie.step(Input())
    assert second.directory.newest_journal(2) == journal
    second.close()
    zombie.close()
    run_all(root)
    check_results(root, STEPS)


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


def test_no_objects_are_left_behind_that_no_commit_names(root: Path) -> None:
    """Those of attempts that were killed, and slices that nobody needs any more."""
    stepper = make_stepper(root)
    journal = stepper.begin(Input())
    assert journal is not None
    stepper.run(journal, None)
    assert len(list_names(stepper.directory, "manifests")) == 2
    directory = stepper.directory
    while step_with_listing(stepper) is not None:
        assert stepper.commit is not None
        assert list_names(directory, "slices") == slices_in(directory, stepper.commit)
        commits = [directory.commit(step) for step in directory.steps()]
        refs = [(place, ref) for commit in commits for place, ref in enumerate(commit.manifests) if ref is not None]
        assert list_names(directory, "manifests") == {object_name("manifests", ref.step, n, ref.id) for n, ref in refs}
        named = {results.object.name for commit in commits for results in results_of(directory, commit)}
        assert list_names(directory, "outputs") == named
        assert not list_names(directory, "staged")
        assert not [path for path in root.rglob(".*/**/*") if path.is_file()]
        assert not list(root.rglob(f"{TEMPORARY}*"))
    assert named
    stepper.close()


def list_names(directory: Directory, folder: str) -> set[str]:
    return {entry.name for entry in directory.store.list(folder)}


class Events:
    """What the file system is asked to do, in order: files get their names, files and folders are synced."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.order: list[str] = []
        self.link, self.rename = os.link, Path.replace

    def note(self, event: str, path: Path) -> None:
        if path.is_relative_to(self.root):
            self.order.append(f"{event} {path.relative_to(self.root)}")

    def make(self, source: Path, target: Path) -> None:
        """Note that a file gets its name; it was synced under the one it had before, or not at all."""
        if f"sync {source.relative_to(self.root)}" in self.order:
            self.note("sync", target)
        self.note("make", target)

    def link_file(self, source: Path, target: Path) -> None:
        self.make(source, target)
        self.link(source, target)

    def rename_file(self, source: Path, target: Path) -> Path:
        self.make(source, target)
        return self.rename(source, target)

    def sync(self, descriptor: int) -> None:
        self.note("sync", Path(os.readlink(f"/proc/self/fd/{descriptor}")))

    def is_durable(self, name: str, before: str) -> bool:
        """Whether a file was synced and got its name, which was synced in its folder, all before an event."""
        order = self.order[: self.order.index(before)]
        made = order.index(f"make {name}")
        return f"sync {name}" in order[:made] and f"sync {Path(name).parent}" in order[made:]


def test_names_are_on_the_disk_before_the_record_that_needs_them(tmp_path: Path) -> None:
    """Those of folders in the folders above them, those of objects before the commit that names them, and those of
    files of results before the mark that says that they are written.
    """
    write_inputs(tmp_path, STEPS)
    events = Events(tmp_path)

    def replace_file(source: Path, target: Path) -> Path:
        return events.rename_file(source, target)

    with (
        patch("os.fsync", events.sync),
        patch("os.link", events.link_file),
        patch.object(Path, "replace", replace_file),
    ):
        stepper = make_stepper(tmp_path)
        while not (commit := stepper.step(Input())) or not file_names(stepper.directory, commit):
            pass
        stepper.close()
    first, last = "make state/commits/000000001.json", f"make state/commits/{commit.step:09}.json"
    assert {"sync .", "sync state"} <= set(events.order[: events.order.index(first)])
    refs = [(place, ref) for place, ref in enumerate(commit.manifests) if ref is not None]
    objects = [object_name("manifests", ref.step, place, ref.id) for place, ref in refs]
    objects += [results.object.name for results in results_of(stepper.directory, commit)]
    objects += slices_in(stepper.directory, commit)
    for name in objects:
        assert events.is_durable(f"state/{name}", last), name
    assert events.is_durable(last.removeprefix("make "), "make results/.headrace-state.json")
    for name in file_names(stepper.directory, commit):
        assert events.is_durable(f"results/{name}", "make results/.headrace-state.json"), name
