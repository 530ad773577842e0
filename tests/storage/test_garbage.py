"""What a long run leaves in its state: bounded, also where nobody reads answers and rows come from dataframes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import pyarrow as pa
import pytest

from headrace.engine.registry import answer_to, ask
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input, Stepper
from headrace.model.caches import CACHES, MAX_PLANS
from headrace.sql import parse_script
from headrace.storage.directory import prepare
from headrace.storage.garbage import KEPT_ANSWERS_S, KEPT_RECORDS, LISTED_EVERY
from tests.engine.stories import without_sync

DECLARED = "CREATE STREAM r (t TIMESTAMP, x BIGINT) EVENT TIME t LATENESS '0 s'"
QUERY = "SELECT count(*) AS n FROM r [RANGE '1 s']"


@pytest.fixture
def stepper(tmp_path: Path) -> Iterator[Stepper]:
    with without_sync():
        prepare(tmp_path, DECLARED)
        stepper = open_stepper(tmp_path)
        yield stepper
        stepper.close()


def open_stepper(root: Path) -> Stepper:
    return Stepper(StreamSetting(uuid4().hex, str(root), parse_script(DECLARED).catalog, "r", None), InProcess())


def batch(second: int) -> Input:
    times = pa.array([second * 1_000_000], pa.timestamp("us", tz="UTC"))
    rows = pa.table({"t": times, "x": pa.array([1])})
    return Input(rows=[rows], sample=lambda: rows)


def test_journals_of_dataframes_are_deleted(stepper: Stepper) -> None:
    for step in range(2 * KEPT_RECORDS):
        stepper.step(batch(step))
    root = stepper.directory.root
    assert len(list((root / "journal").iterdir())) <= KEPT_RECORDS + LISTED_EVERY
    assert len(list((root / "inputs").iterdir())) == 1
    stepper.close()
    restarted = open_stepper(root)
    assert restarted.step(batch(2 * KEPT_RECORDS)) is not None
    restarted.close()


def test_old_answers_that_nobody_takes_are_deleted(stepper: Stepper) -> None:
    with patch("headrace.storage.garbage.KEPT_ANSWERS", 2):
        asked = [ask(stepper.directory, "add", f"q{number}", QUERY) for number in range(4)]
        stepper.step(batch(1))
        asked += [ask(stepper.directory, "add", "wrong", "SELECT")]
        with patch("time.time", lambda: time.time_ns() / 1e9 + KEPT_ANSWERS_S + 1):
            stepper.step(batch(2))
    assert [answer_to(stepper.directory, request) is not None for request in asked] == [False] * 2 + [True] * 3


def test_answers_that_clients_may_wait_for_are_kept(stepper: Stepper) -> None:
    with patch("headrace.storage.garbage.KEPT_ANSWERS", 2):
        asked = [ask(stepper.directory, "add", f"q{number}", QUERY) for number in range(4)]
        stepper.step(batch(1))
        asked += [ask(stepper.directory, "drop", "q0")]
        stepper.step(batch(2))
    assert all(answer_to(stepper.directory, request) is not None for request in asked)


def test_parts_of_former_plans_are_forgotten(stepper: Stepper) -> None:
    """Every step has another query, and so another plan."""
    steps = 3 * MAX_PLANS
    entries = []
    for step in range(steps):
        ask(stepper.directory, "add", f"q{step}", f"{QUERY} WHERE x > {step}")
        if step:
            ask(stepper.directory, "drop", f"q{step - 1}")
        stepper.step(batch(step))
        entries.append(sum(cache.cache_info().currsize for cache in CACHES))
    assert max(entries[-MAX_PLANS:]) <= max(entries[: 2 * MAX_PLANS])
