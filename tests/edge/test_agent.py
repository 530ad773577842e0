"""An agent over files: what goes up is what was read, under the plan that was asked for, however it is cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.edge.agent_progress import Mode
from headrace.model.errors import DataError, UsageError
from headrace.wire.ledger import BEGINNING
from headrace.wire.orders import Orders
from tests.edge.agents import (
    OTHERS,
    QUERIES,
    QUICK,
    Running,
    answers,
    barred,
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

FORWARD = Orders("r")


def test_rows_go_up_as_they_are_without_a_plan(tmp_path: Path) -> None:
    upper(tmp_path).publish(FORWARD)
    write_files(tmp_path, 5)
    make_agent(tmp_path).run()
    frames = received(tmp_path)
    assert in_any_order(rows_in(frames)) == in_any_order(sent_rows(5))
    assert sum(frame.header.rows.read for frame in frames) == 60
    assert not frames[-1].header.ended
    assert frames[0].header.begins == BEGINNING
    assert not list((tmp_path / "state").glob("*.spooled")), "what the upper side has is deleted"


def test_partials_answer_the_queries(tmp_path: Path) -> None:
    orders = orders_for(QUERIES)
    upper(tmp_path).publish(orders)
    write_files(tmp_path, 20)
    make_agent(tmp_path, Mode.BOUNDED).run()
    frames = received(tmp_path)
    assert answers(frames, [orders.plan], QUERIES) == expected(20, QUERIES)
    assert frames[-1].header.ended
    assert {frame.header.plan for frame in frames} == {orders.plan_id}


def test_another_start_goes_on_behind_what_was_read(tmp_path: Path) -> None:
    upper(tmp_path).publish(FORWARD)
    for count in (2, 2, 5):
        write_files(tmp_path, count)
        make_agent(tmp_path).run()
    frames = received(tmp_path)
    assert in_any_order(rows_in(frames)) == in_any_order(sent_rows(5))
    assert len({frame.header.incarnation for frame in frames}) == 3


def test_the_watermark_outlives_the_agent(tmp_path: Path) -> None:
    upper(tmp_path).publish(FORWARD)
    write_files(tmp_path, 3)
    make_agent(tmp_path).run()
    make_agent(tmp_path).run()
    *_, first, second = received(tmp_path)
    highest_us = max(row["t"].timestamp() for row in sent_rows(3))
    assert first.header.watermark_us == round(highest_us * 1e6) - 2_000_000
    assert second.header.watermark_us == first.header.watermark_us
    assert second.header.rows.read == 0


def test_new_orders_are_followed_behind_a_cut(tmp_path: Path) -> None:
    """Files before and after the change; each frame is of one plan, and together they answer what both ask for."""
    first, second = orders_for(QUERIES), orders_for({**QUERIES, **OTHERS})
    upper(tmp_path).publish(first)
    write_files(tmp_path, 10)
    with Running(make_agent(tmp_path, Mode.LIVE)) as running:
        running.wait_for(lambda: running.agent.progress().rows.read == 120)
        upper(tmp_path).publish(second)
        running.wait_for(lambda: running.agent.progress().plan == second.plan_id)
        write_files(tmp_path, 20, first=10)
        running.wait_for(lambda: running.agent.progress().rows.read == 240)
    frames = received(tmp_path)
    assert [plan for plan in dict.fromkeys(frame.header.plan for frame in frames) if plan is not None] == [
        first.plan_id,
        second.plan_id,
    ]
    assert answers(frames, [None, first.plan, second.plan], QUERIES) == expected(20, QUERIES)


def test_an_agent_waits_for_orders(tmp_path: Path) -> None:
    write_files(tmp_path, 2)
    pace = replace(QUICK, heartbeat_s=0.05)
    with Running(make_agent(tmp_path, Mode.LIVE, pace)) as running:
        running.wait_for(lambda: running.agent.progress().frames_sent > 2)
        assert running.agent.progress().rows.read == 0
        assert not running.agent.progress().has_orders
        upper(tmp_path).publish(FORWARD)
        running.wait_for(lambda: running.agent.progress().rows.read == 24)
    assert in_any_order(rows_in(received(tmp_path))) == in_any_order(sent_rows(2))


def test_once_without_orders_is_an_error(tmp_path: Path) -> None:
    write_files(tmp_path, 2)
    with pytest.raises(UsageError, match="no orders") as problem:
        make_agent(tmp_path, pace=replace(QUICK, patience_s=0.1)).run()
    assert problem.value.code == "no-orders"
    upper(tmp_path).publish(FORWARD)
    make_agent(tmp_path).run()
    assert len(rows_in(received(tmp_path))) == 24


def test_orders_are_kept_while_nobody_answers(tmp_path: Path) -> None:
    orders = orders_for(QUERIES)
    upper(tmp_path).publish(orders)
    write_files(tmp_path, 3)
    make_agent(tmp_path).run()
    (tmp_path / "up" / "orders.json").unlink()
    write_files(tmp_path, 20)
    make_agent(tmp_path).run()
    assert answers(received(tmp_path), [orders.plan], QUERIES) == expected(20, QUERIES)


def test_frames_wait_while_the_upper_side_is_gone(tmp_path: Path) -> None:
    upper(tmp_path).publish(FORWARD)
    write_files(tmp_path, 3)
    agent = make_agent(tmp_path, pace=replace(QUICK, patience_s=0.2))
    agent.following.has_polled.wait()
    with barred(tmp_path):
        agent.run()
    assert agent.progress().frames_waiting > 0
    assert "can't write" in (agent.progress().problem or "")
    make_agent(tmp_path).run()
    assert in_any_order(rows_in(received(tmp_path))) == in_any_order(sent_rows(3))


def test_a_full_spool_stops_reading(tmp_path: Path) -> None:
    upper(tmp_path).publish(FORWARD)
    write_files(tmp_path, 6)
    pace = replace(QUICK, spool_bytes=1, every_s=1e-9, patience_s=0.2)
    agent = make_agent(tmp_path, pace=pace)
    agent.following.has_polled.wait()
    with barred(tmp_path), pytest.raises(DataError, match="the spool is full"):
        agent.run()
    assert 0 < agent.progress().rows.read < 72
    make_agent(tmp_path, pace=replace(pace, patience_s=60)).run()
    assert in_any_order(rows_in(received(tmp_path))) == in_any_order(sent_rows(6))


def test_two_agents_do_not_share_a_state(tmp_path: Path) -> None:
    upper(tmp_path).publish(FORWARD)
    write_files(tmp_path, 1)
    first = make_agent(tmp_path)
    with pytest.raises(UsageError, match="another agent runs"):
        make_agent(tmp_path)
    first.run()


def test_orders_for_another_stream_are_not_followed(tmp_path: Path) -> None:
    upper(tmp_path).publish(Orders("other"))
    write_files(tmp_path, 1)
    with pytest.raises(UsageError, match="no orders") as problem:
        make_agent(tmp_path, pace=replace(QUICK, patience_s=0.1)).run()
    assert "for stream other" in (problem.value.detail or "")


def test_files_that_vanish_and_come_back_are_not_read_again(tmp_path: Path) -> None:
    """As when a disk is unmounted between two starts: what is settled remembers them for a week."""
    upper(tmp_path).publish(FORWARD)
    write_files(tmp_path, 3)
    make_agent(tmp_path).run()
    (tmp_path / "input").rename(tmp_path / "unmounted")
    write_files(tmp_path, 4, first=3)
    make_agent(tmp_path).run()
    for path in (tmp_path / "unmounted").iterdir():
        path.rename(tmp_path / "input" / path.name)
    make_agent(tmp_path).run()
    assert in_any_order(rows_in(received(tmp_path))) == in_any_order(sent_rows(4))
