"""`headrace rescale`, `backup` and `restore`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.engine.step.stepper import Stepper
from headrace.storage.directory import find_directory
from tests.cli.command_line import CommandLine
from tests.cli.test_queries import job, running, stepper

__all__ = ["job", "running", "stepper"]


def test_the_number_of_reducers_changes_with_the_next_step(headrace: CommandLine, job: Path, running: Stepper) -> None:
    outcome = headrace("rescale", job, "--reducers", 5)
    assert outcome.status == 0, outcome.err
    assert "Trades: 5 reducers in step 2" in outcome.out
    assert running.commit is not None
    assert running.commit.reducers == 5


def test_a_job_that_does_not_run_takes_it_when_it_starts(headrace: CommandLine, job: Path, stepper: Stepper) -> None:
    outcome = headrace("rescale", job, "--reducers", 3, "--wait", 0)
    assert outcome.status == 0, outcome.err
    assert "no engine answered" in outcome.out
    assert stepper.commit is not None
    assert stepper.commit.reducers == 2


@pytest.mark.parametrize("number", [0, 4_097, "many"])
def test_other_numbers_are_refused(number: object, headrace: CommandLine, job: Path) -> None:
    outcome = headrace("rescale", job, "--reducers", number)
    assert outcome.status == 2
    assert "--reducers" in outcome.err


def test_there_must_be_a_state(headrace: CommandLine, job: Path, tmp_path: Path) -> None:
    for words in (("rescale", job, "--reducers", 2), ("backup", job, tmp_path / "copy")):
        outcome = headrace(*words)
        assert outcome.status == 1
        assert "there is no state in" in outcome.err


def test_a_state_is_copied_and_put_back(headrace: CommandLine, job: Path, stepper: Stepper, tmp_path: Path) -> None:
    outcome = headrace("backup", job, tmp_path / "copy")
    assert outcome.status == 0, outcome.err
    assert f"Trades: step 1 is in {tmp_path}/copy/Trades" in outcome.out
    running = headrace("restore", job, tmp_path / "copy")
    assert running.status == 1
    assert "another engine" in running.err
    stepper.close()
    assert "there is a state in" in headrace("restore", job, tmp_path / "copy").err
    shutil.rmtree(job.parent / "state")
    outcome = headrace("restore", job, tmp_path / "copy")
    assert outcome.status == 0, outcome.err
    restored = find_directory(job.parent / "state" / "Trades")
    assert restored is not None
    assert restored.last_commit() == stepper.commit
