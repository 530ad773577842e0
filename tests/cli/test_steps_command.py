"""`headrace steps`: what was committed, what was begun, and input that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.step.stepper import Input, Stepper
from tests.cli.command_line import CommandLine
from tests.cli.test_queries import add_rows, job, stepper

__all__ = ["job", "stepper"]


def test_input_that_is_gone_is_abandoned(headrace: CommandLine, job: Path, stepper: Stepper, trades: Path) -> None:
    assert "Trades: step 1 committed: 0 rows so far" in headrace("steps", "list", job).out
    assert "no stream has begun step 2" in headrace("steps", "abandon", job, 2).err
    add_rows(job, trades)
    assert stepper.begin(Input()) is not None
    stepper.close()
    assert "all input of step 2 is there" in headrace("steps", "abandon", job, 2).err
    path = job.parent / "data" / "Trades" / "part-0.parquet"
    path.unlink()
    listed = headrace("steps", "list", job).out
    assert "Trades: step 2 begun, with 1 units of input" in listed
    assert f"{path}: No such file or directory" in listed.replace("\n", "")
    done = headrace("steps", "abandon", job, 2)
    assert done.status == 0
    assert f"abandoned: {path}" in done.out
    assert "windows that hold times from the beginning to the end are not answered" in done.out
    again = type(stepper)(stepper.setting, stepper.runner)
    commit = again.step(Input())
    again.close()
    assert commit is not None
    assert (commit.step, commit.attempt, commit.totals.quarantined) == (2, 1, 1)


@pytest.mark.parametrize("command", ["list", "abandon"])
def test_help_teaches(headrace: CommandLine, command: str) -> None:
    assert "step" in headrace("steps", command, "--help").out.lower()
