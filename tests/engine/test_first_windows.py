"""What is announced to who adds a query is what comes: its first window, and those that are left out behind it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from headrace.engine.registry import answer_to, ask
from headrace.engine.step.stepper import Input
from headrace.model.windows import Window
from headrace.sql import parse_query
from headrace.windows import bounds_of, last_ending
from tests.engine.files import CATALOG, batches, make_stepper, write_input
from tests.engine.stories import read_results

STEPS = 14


pytestmark = pytest.mark.usefixtures("without_sync")


def windows_between(window: Any, first_us: int, last_us: int) -> list[tuple[int, int]]:
    assert isinstance(window, Window)
    numbers = np.arange(last_ending(window, first_us), last_ending(window, last_us) + 1)
    starts_us, ends_us = bounds_of(window, numbers)
    return list(zip(starts_us.tolist(), ends_us.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_windows_come_as_announced(tmp_path: Path, seed: int) -> None:
    """
    slices of the older plan   |-----|--|-----|--|          the new query's own behind them
    windows of the new query      |--------|
                                     |--------|   left out: it begins inside an older slice
    """
    source = Random(seed)
    for number, rows in enumerate(batches(STEPS)):
        write_input(tmp_path / "input", rows, number)
    stepper = make_stepper(tmp_path)
    for _ in range(source.randrange(3, 7)):
        stepper.step(Input())
    asked = {}
    for place in range(4):
        range_s, slide_s = source.randrange(2, 12), source.randrange(1, 6)
        sql = f"SELECT count(*) AS n FROM r [RANGE '{range_s} s' SLIDE '{slide_s} s']"
        asked[f"late{place}"] = sql, ask(stepper.directory, "add", f"late{place}", sql)
        if source.random() < 0.5:
            stepper.step(Input())
    stepper.step(Input())
    answers = {name: answer_to(stepper.directory, request) for name, (_, request) in asked.items()}
    while stepper.step(Input()) is not None:
        pass
    stepper.close()
    assert stepper.commit is not None
    closed_us = stepper.commit.closed_us
    assert closed_us is not None
    for name, (sql, _) in asked.items():
        query, answer = parse_query(sql, CATALOG), answers[name]
        assert answer is not None
        come = sorted(read_results(tmp_path / "results" / name, query))
        announced = windows_between(query.window, answer["end_us"], closed_us)
        left_out = {tuple(each) for each in answer["left_out"]}
        assert come == [each for each in announced if each not in left_out], (name, sql, answer)
        assert len(left_out) == answer["left_out_count"]
        for (start_us, end_us), answered in read_results(tmp_path / "results" / name, query).items():
            counted = sum(start_us <= row["t"] < end_us for rows in batches(STEPS) for row in rows)
            assert answered == [(start_us, end_us, counted)]
