"""A copy of a state continues where the state was, also if the job runs while it is taken."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from headrace.engine.step.stepper import Input, Stepper
from headrace.model.errors import UsageError
from headrace.storage import backup
from headrace.storage.backup import back_up
from headrace.storage.directory import Directory
from headrace.storage.records import Commit
from headrace.storage.store import open_store
from tests.engine.files import check_results, make_stepper, run_all, write_inputs

STEPS = 20


def copy(root: Path, target: Path) -> dict[str, int]:
    return back_up(open_store(root), open_store(target), lambda done, count: None)


def test_a_copy_continues_where_the_state_was(tmp_path: Path) -> None:
    root = write_inputs(tmp_path / "job", STEPS)

    def copy_and_stop(stepper: Stepper) -> None:
        if stepper.number == STEPS - 2:
            assert copy(root, tmp_path / "copy") == {"state": STEPS - 3}
            shutil.copytree(root / "results", tmp_path / "results")
            stepper.step(Input())
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run_all(root, copy_and_stop)
    shutil.rmtree(root / "state")
    shutil.rmtree(root / "results")
    shutil.copytree(tmp_path / "results", root / "results")
    assert copy(tmp_path / "copy", root) == {"state": STEPS - 3}
    run_all(root)
    check_results(root, STEPS)


def test_what_the_job_deletes_meanwhile_begins_the_copy_again(tmp_path: Path) -> None:
    root = write_inputs(tmp_path / "job", STEPS)
    stepper = make_stepper(root)
    stepper.step(Input())
    closure = backup.closure
    looks: list[int] = []

    def look(directory: Directory, commit: Commit) -> Iterator[str]:
        """The job makes a step, and deletes an object, right after the names were looked up."""
        yield from closure(directory, commit)
        if not looks:
            stepper.step(Input())
            yield "slices/gone"
        looks.append(commit.step)

    with patch.object(backup, "closure", look):
        assert copy(root, tmp_path / "copy") == {"state": 2}
    assert looks == [1, 2]
    stepper.close()


def test_a_copy_is_not_put_over_another_state(tmp_path: Path) -> None:
    root = write_inputs(tmp_path / "job", 1)
    make_stepper(root).close()
    with pytest.raises(UsageError, match=r"there is a state in .* already, of state"):
        copy(root, root)
    with pytest.raises(UsageError, match="there is no state in"):
        copy(tmp_path / "nothing", tmp_path / "copy")
