"""A step whose input is gone is finished without it: the loss is recorded, and no window pretends to be complete."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from headrace.model.errors import UsageError
from headrace.spark.abandonment import abandon_input, gone_input
from headrace.spark.inputs import BadFile
from headrace.spark.stepping import Input
from headrace.sql import parse_query
from tests.spark.files import CATALOG, QUERIES, batches, expected, make_stepper, write_input
from tests.spark.stories import read_results

STEPS = 12
LOST = 4
CLOCK_US = 3_000_000
"""A step: each file is about three seconds."""


@pytest.fixture(autouse=True)
def _without_sync() -> Iterator[None]:
    with patch("os.fsync"):
        yield


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number, rows in enumerate(batches(STEPS)):
        write_input(tmp_path / "input", rows, number)
    return tmp_path


def clock(number: int) -> Input:
    return Input(clock_us=number * CLOCK_US + 3_000_000)


def test_a_step_whose_file_is_gone_is_finished_without_it(root: Path) -> None:
    stepper = make_stepper(root)
    for number in range(LOST):
        stepper.step(clock(number))
    journal = stepper.begin(clock(LOST))
    assert journal is not None
    path = root / "input" / f"part-{LOST:04}.parquet"
    path.unlink()
    with pytest.raises(BadFile, match="can't be read"):
        stepper.step(clock(LOST))
    assert gone_input(journal) == {str(path): "No such file or directory"}
    attempt = abandon_input(stepper.directory, journal.step, 0)
    (span,) = attempt.lost
    number = LOST
    commit = stepper.step(clock(number))
    assert commit is not None
    assert (commit.attempt, [each.path for each in commit.quarantined]) == (1, [str(path)])
    while (made := stepper.step(clock(number := number + 1))) is not None:
        commit = made
    while stepper.step(Input(ended=True)) is not None:
        pass
    stepper.close()
    assert commit.totals.rows == 12 * (STEPS - 1)
    theirs = expected(STEPS)
    for name, sql in QUERIES.items():
        ours = read_results(root / "results" / name, parse_query(sql, CATALOG))
        assert ours, name
        for window in ours:
            is_clear = window[1] <= (journal.closed_us or 0) or window[0] >= span.end_us
            assert is_clear or window[1] <= (journal.watermark_us or 0), (name, window, span)
        assert max(ours) == max(theirs[name]), "windows behind the loss are answered"


def test_nothing_is_abandoned_that_is_there(root: Path) -> None:
    stepper = make_stepper(root)
    stepper.step(clock(0))
    journal = stepper.begin(clock(1))
    assert journal is not None
    with pytest.raises(UsageError, match="is there"):
        abandon_input(stepper.directory, journal.step, 0)
    stepper.close()
