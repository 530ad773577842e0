"""An expression that can't be computed at an edge: its rows go up as they are, and nothing else changes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pytest

from headrace.edge.agent import Agent
from headrace.edge.agent_progress import Mode
from headrace.edge.socket_sources import StandardInput
from headrace.edge.spool import Spool
from headrace.edge.tables import level1 as level_one
from headrace.edge.work import work_for
from headrace.expressions.evaluation import Evaluation
from headrace.model.errors import DataError
from headrace.model.time import format_timestamp
from headrace.wire.frame_checks import check_rows
from headrace.wire.frames import Frame
from headrace.wire.orders import Orders
from tests.edge.agents import (
    EDGE,
    OTHERS,
    QUERIES,
    QUICK,
    STREAM,
    Running,
    answers,
    expected,
    in_any_order,
    make_agent,
    orders_for,
    received,
    rows_in,
    sent_rows,
    upper,
    write_files,
)
from tests.engine.files import CATALOG, batches

FAILING = {"sevens": "SELECT k, sum(v * 7) AS n FROM r [RANGE '4 s'] GROUP BY k"}
EVERY = {**QUERIES, **FAILING}
FILES = 20
POISON = 9
"""A value of v that is not in the rows that orders are tried with."""


@contextmanager
def failing(fails: Callable[[Evaluation], bool], problem: Exception) -> Iterator[None]:
    """Products can't be computed for some batches of rows."""
    column = Evaluation.column_in_memory

    def fail(evaluation: Evaluation, tree: Any) -> Any:
        if "'*'" in repr(tree) and fails(evaluation):
            raise problem
        return column(evaluation, tree)

    with patch.object(Evaluation, "column_in_memory", fail):
        yield


def is_poisoned(evaluation: Evaluation) -> bool:
    return POISON in evaluation.columns["r", "v"].to_pylist()


def as_partials(frames: Iterable[Frame], orders: Orders) -> list[Frame]:
    """Rows that came as they are, folded by the plan, as the root does."""
    found = []
    for frame in frames:
        if frame.header.plan is None and frame.tables:
            work = work_for(orders, CATALOG, {}, 1 << 20)
            for table in check_rows(frame, STREAM):
                assert not work.feed(table)
            frame = Frame(msgspec.structs.replace(frame.header, plan=orders.plan_id), work.cut())
        found.append(frame)
    return found


def check_frames(root: Path, orders: Orders, count: int = FILES) -> list[dict[str, Any]]:
    """Each row is in one frame, and all of them answer the queries. Returns the rows that came as they are."""
    frames = received(root)
    rows = rows_in(frames)
    assert sum(frame.header.rows.read for frame in frames) == 12 * count
    assert set(in_any_order(rows)) <= set(in_any_order(sent_rows(count)))
    assert answers(as_partials(frames, orders), [orders.plan], EVERY) == expected(count, EVERY)
    return rows


def test_rows_that_can_not_be_computed_go_up_as_they_are(tmp_path: Path) -> None:
    orders, told = orders_for(EVERY), list[str]()
    upper(tmp_path).publish(orders)
    write_files(tmp_path, FILES)
    with failing(is_poisoned, ValueError("it does not fit")):
        make_agent(tmp_path, report=told.append).run()
    rows = check_frames(tmp_path, orders)
    assert 0 < len(rows) < 12 * FILES, "the others go up as partials"
    (message,) = told
    assert "query sevens" in message
    assert "it does not fit" in message


def test_an_agent_goes_on_when_orders_without_the_query_come(tmp_path: Path) -> None:
    """Every row fails, also those that orders are tried with: such orders are followed all the same."""
    orders, others = orders_for(EVERY), orders_for({**QUERIES, **OTHERS})
    upper(tmp_path).publish(orders)
    write_files(tmp_path, 10)
    with failing(lambda _: True, ArithmeticError("never")), Running(make_agent(tmp_path, Mode.LIVE)) as running:
        running.wait_for(lambda: running.agent.progress().rows.read == 120)
        upper(tmp_path).publish(others)
        running.wait_for(lambda: running.agent.progress().plan == others.plan_id)
        write_files(tmp_path, FILES, first=10)
        running.wait_for(lambda: running.agent.progress().rows.read == 12 * FILES)
    frames = received(tmp_path)
    assert in_any_order(rows_in(frames)) == in_any_order(sent_rows(10))
    both = as_partials(frames, orders)
    assert answers(both, [orders.plan, others.plan], QUERIES) == expected(FILES, QUERIES)


def test_rows_of_a_channel_are_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They can't be read again: what came is kept until it is in a frame."""
    monkeypatch.setattr(level_one, "MAX_ROWS", 5)
    monkeypatch.setattr(level_one, "MIN_ROWS", 5)
    orders = orders_for(EVERY)
    upper(tmp_path).publish(orders)
    reading, writing = os.pipe()
    lines = [json.dumps({**row, "t": format_timestamp(row["t"])}) + "\n" for rows in batches(FILES) for row in rows]
    spool = Spool(tmp_path / "state", EDGE, "r")
    source = StandardInput(STREAM, "json", reading)
    agent = Agent(CATALOG, STREAM, spool, source, lambda: upper(tmp_path), mode=Mode.BOUNDED, pace=QUICK)
    with os.fdopen(reading), failing(is_poisoned, pa.ArrowNotImplementedError("no such kernel")):
        with os.fdopen(writing, "w") as pipe:
            pipe.writelines(lines)
        agent.run()
    assert 0 < len(check_frames(tmp_path, orders)) < 12 * FILES


@pytest.mark.parametrize("most_rows", [1, 3])
def test_an_expression_that_takes_too_much_memory_is_computed_for_fewer_rows(tmp_path: Path, most_rows: int) -> None:
    orders, told = orders_for(EVERY), list[str]()
    upper(tmp_path).publish(orders)
    write_files(tmp_path, FILES)
    with failing(lambda evaluation: evaluation.length > most_rows, MemoryError("too much")):
        make_agent(tmp_path, report=told.append).run()
    assert not check_frames(tmp_path, orders)
    assert not told


def test_a_file_that_is_gone_before_it_is_read_again_stops_the_agent(tmp_path: Path) -> None:
    """The next start begins behind the last frame, and finds the file missing."""
    upper(tmp_path).publish(orders_for(EVERY))
    write_files(tmp_path, 1)

    def takes_files_away(evaluation: Evaluation) -> bool:
        if evaluation.length > 2:
            (tmp_path / "input").rename(tmp_path / "away")
        return evaluation.length > 2

    with (
        failing(takes_files_away, ValueError("it does not fit")),
        pytest.raises(DataError, match="can't be opened") as problem,
    ):
        make_agent(tmp_path).run()
    assert problem.value.code == "bad-file"
    assert not received(tmp_path)
