"""Children that die at named points, and what the next engine finds: the results are the reference's, or there is an
error. `tests/faults` has kills at random moments, damaged files and several owners.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from headrace.engine.quotas import Quotas
from headrace.engine.registry import answer_to, ask, requests
from headrace.engine.step.level2_task import MAX_OBJECTS
from headrace.engine.step.stepper import Input, Stepper
from headrace.kernel import interchange
from headrace.kernel.interchange import node_id
from headrace.model.errors import HeadraceError
from headrace.sql import parse_query
from headrace.storage import disk
from headrace.storage.directory import open_directory
from headrace.storage.disk import StateWriteError, make_folder
from headrace.storage.slices import CACHE
from tests.engine.files import CATALOG, LATER, batches, check_results, make_stepper, run_all, write_input
from tests.engine.stories import read_results

STEPS = 8
LONG = MAX_OBJECTS + 4
"""Steps until objects of slices have been merged, if all of them are still needed."""
REDUCERS = 2
"""Of the job of `files`."""


def with_input(root: Path, count: int) -> Path:
    for number, rows in enumerate(batches(count)):
        write_input(root / "input", rows, number)
    return root


def child(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((".", os.environ.get("PYTHONPATH", "")))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


POINTS = {
    "before the journal": ("before", "create", "journal/", 3),
    "after the journal": ("after", "create", "journal/", 3),
    "in the slice write": ("", "half", ".slices", 5),
    "after an object of slices": ("after", "rename", ".slices", 5),
    "in an object of results": ("", "half", ".results", 3),
    "in a manifest": ("", "half", "manifests/", 5),
    "after a manifest": ("after", "rename", "manifests/", 5),
    "before the commit": ("before", "create", "commits/", 4),
    "in the commit": ("", "half", "commits/", 4),
    "before the results are shown": ("after", "create", "commits/", 4),
    "in the results": ("", "half", "results/.staged/", 4),
    "while results are shown": ("after", "rename", "/.staged/", 3),
    "after the results": ("after", "shown", "results/counts", 2),
    "before the mark of the results": ("before", "rename", ".headrace-state.json", 2),
    "in the mark of the results": ("", "half", ".headrace-state.json", 2),
    "in a registry change": ("", "half", "registry/", 2),
    "after a registry change": ("after", "create", "registry/", 2),
    "in the plan": ("", "half", "plans/", 2),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_child_dies_at_a_point(point: str, tmp_path: Path) -> None:
    root = with_input(tmp_path, STEPS)
    when, operation, part, nth = POINTS[point]
    died = child("tests.engine.dying", str(root), when, operation, part, str(nth))
    assert died.wait(60) == -signal.SIGKILL
    assert len(list((root / "state" / "commits").glob("0*.json"))) >= 1, "a step was committed before"
    with patch("os.fsync"):
        run_all(root)
    check_results(root, STEPS)


def dense_batches(count: int, seed: int = 3) -> list[list[dict[str, Any]]]:
    """Rows of little time each, so that slices of many steps are still needed."""
    return [[{**row, "t": row["t"] // 15} for row in rows] for rows in batches(count, seed)]


def test_a_child_dies_while_slices_are_merged(tmp_path: Path) -> None:
    for number, rows in enumerate(dense_batches(LONG)):
        write_input(tmp_path / "input", rows, number)
    died = child("tests.engine.dying", str(tmp_path), "", "half", ".slices", str(REDUCERS * MAX_OBJECTS + 1))
    assert died.wait(60) == -signal.SIGKILL
    last = open_directory(tmp_path / "state").last_commit()
    assert last is not None
    assert (last.step, last.slice_objects) == (MAX_OBJECTS, REDUCERS * MAX_OBJECTS)
    counts: dict[int, int] = {}
    with patch("os.fsync"):
        run_all(tmp_path, lambda stepper: counts.update({stepper.number - 1: slice_objects(stepper)}))
    assert counts[MAX_OBJECTS + 1] == REDUCERS
    with patch("tests.engine.files.batches", dense_batches):
        check_results(tmp_path, LONG)


def slice_objects(stepper: Stepper) -> int:
    return stepper.commit.slice_objects if stepper.commit is not None else 0


# What the next engine finds


def test_partials_of_nodes_with_other_ids_are_not_passed_over(tmp_path: Path) -> None:
    """Another version of the program may describe nodes in other words. What was kept is read, or there is an error."""
    for number, rows in enumerate(batches(8)):
        write_input(tmp_path / "input", rows, number)

    def stop_early(stepper: Stepper) -> None:
        if stepper.number == 5:
            raise KeyboardInterrupt

    with patch("os.fsync"):
        with pytest.raises(KeyboardInterrupt):
            run_all(tmp_path, stop_early)
        CACHE.held.clear()
        try:
            with patch.object(interchange, "node_id", lambda stream, node: node_id(stream, node)[::-1]):
                run_all(tmp_path)
        except HeadraceError:
            return
        finally:
            CACHE.held.clear()
    check_results(tmp_path, 8)


def test_a_request_is_written_while_an_engine_starts(tmp_path: Path) -> None:
    """What an engine that died left half written is deleted, but not what another process is about to leave."""
    write_input(tmp_path / "input", batches(1)[0], 0)
    first = make_stepper(tmp_path)
    first.close()
    written = disk.write_whole

    def written_and_started(path: Path, data: bytes, **how: bool) -> None:
        written(path, data, **how)
        if path.parent.name == "inbox":
            make_stepper(tmp_path).close()

    with patch.object(disk, "write_whole", written_and_started):
        ask(first.directory, "add", "later", LATER["later"])
    assert [request.name for request in requests(first.directory)] == ["later"]


def test_a_full_disk_stops_cleanly_and_goes_on(tmp_path: Path) -> None:
    root = with_input(tmp_path, STEPS)
    stepper = make_stepper(root)
    stepper.step(Input())
    with (
        patch("os.fsync", side_effect=OSError(28, "No space left on device")),
        pytest.raises(HeadraceError, match="No space"),
    ):
        stepper.step(Input())
    stepper.close()
    with patch("os.fsync"):
        run_all(root)
    check_results(root, STEPS)


# Quotas


def test_quotas_are_told(tmp_path: Path) -> None:
    root = with_input(tmp_path, 2)
    stepper = make_stepper(root, quotas=Quotas(queries=4, groups=3))
    stepper.step(Input())
    requests = {
        "wide": (
            "add",
            "SELECT k, v, count(*) AS n FROM r [RANGE '1 s'] GROUP BY k, v",
            "groups, 3 are allowed",
        ),
        "fourth": ("add", "SELECT count(*) AS n FROM r [RANGE '1 s']", None),
        "fifth": ("add", "SELECT count(*) AS n FROM r [RANGE '1 s']", "as many as are allowed"),
        "counts": ("drop", "", None),
    }
    ids = {name: ask(stepper.directory, action, name, sql) for name, (action, sql, _) in requests.items()}
    stepper.step(Input())
    for name, (_, _, message) in requests.items():
        told = answer_to(stepper.directory, ids[name])
        assert told is not None
        assert told.get("refused", False) is (message is not None), told
        assert message is None or re.search(message, told["message"]), told
    stepper.changes.quotas = Quotas(state_bytes=0)
    sql = "SELECT count(*) AS n FROM r [RANGE '2 s']"
    asked = {action: ask(stepper.directory, action, "fourth", sql) for action in ("replace", "drop")}
    stepper.step(Input())
    told = {action: answer_to(stepper.directory, request) for action, request in asked.items()}
    assert told["replace"] is not None
    assert "bytes" in told["replace"]["message"]
    assert told["drop"] == {"version": 3, "step": 3}, "a full state can be relieved"
    stepper.close()


# Answers


def test_who_asks_is_told_the_first_complete_window(tmp_path: Path) -> None:
    """
    rows counted before   |----------------|
    windows of 4 s             |---|---|---|---|---|
    first complete                           ^ the one that begins behind them
    """
    root = with_input(tmp_path, 6)
    stepper = make_stepper(root)
    for _ in range(3):
        stepper.step(Input())
    sql = "SELECT count(*) AS n FROM r [RANGE '4 s'] WHERE v <> 5"
    request = ask(stepper.directory, "add", "sevens", sql)
    stepper.step(Input())
    told = answer_to(stepper.directory, request)
    assert told is not None
    assert stepper.commit is not None
    while stepper.step(Input(ended=True)) is not None:
        pass
    stepper.close()
    ours = read_results(root / "results" / "sevens", parse_query(sql, CATALOG))
    assert min(ours) == (told["start_us"], told["end_us"])


def test_input_that_changed_is_not_taken_for_what_it_was(tmp_path: Path) -> None:
    root = with_input(tmp_path, 3)
    stepper = make_stepper(root)
    stepper.step(Input())
    journal = stepper.begin(Input())
    assert journal is not None
    write_input(root / "input", batches(9)[8], 1)
    with pytest.raises(HeadraceError, match="it has changed since step 2 began"):
        stepper.step(Input())
    stepper.close()


def test_a_start_that_fails_gives_the_directory_free(tmp_path: Path) -> None:
    """As in a notebook, where the process goes on and the trace of the failure is kept."""
    root = with_input(tmp_path, 1)
    make_stepper(root).close()
    for name in ("headrace.engine.step.stepper.sweep", "headrace.storage.local_store.create_file"):
        with patch(name, side_effect=OSError("no room")), pytest.raises(OSError, match="no room"):
            make_stepper(root)
    make_stepper(root).close()


def test_all_folders_that_are_made_are_private(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_folder(tmp_path / "state" / "Trades" / "exchange")
    made = sorted(path for path in tmp_path.rglob("*"))
    assert [path.name for path in made] == ["state", "Trades", "exchange"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below" / "it"):
        with pytest.raises(StateWriteError, match="can't write"):
            make_folder(path)
