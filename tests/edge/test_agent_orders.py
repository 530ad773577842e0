"""Orders as an edge follows them: kept with their tables, checked, and refused when they can't be followed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.edge.agent_progress import Mode
from headrace.edge.orders_poll import OrdersPoll
from headrace.edge.work import check_functions, ordered_columns, work_for
from headrace.model.errors import UsageError
from headrace.model.query import Query
from headrace.model.schema import Catalog, UserFunction
from headrace.model.types import BIGINT, DOUBLE
from headrace.sql import parse_query
from headrace.wire.exchange import DirectoryExchange
from headrace.wire.orders import Orders
from tests.edge.agents import QUERIES, STREAM, Running, make_agent, orders_for, upper, write_files
from tests.engine.files import CATALOG

TABLE = pa.table({"k": ["a", "b"]})


def kept_table(exchange: DirectoryExchange) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return exchange.keep_table(bytes(sink.getvalue()))


@contextmanager
def following(root: Path) -> Iterator[OrdersPoll]:
    found = OrdersPoll(upper(root), root / "kept", "r", 0.01)
    try:
        found.has_polled.wait()
        yield found
    finally:
        found.stop()


def wait_for(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.005)


def test_tables_come_with_the_orders_and_are_kept(tmp_path: Path) -> None:
    up = upper(tmp_path)
    up.publish(Orders("r", tables={"c": kept_table(up)}))
    with following(tmp_path) as found:
        assert found.newest is not None
        assert found.newest.tables["c"].equals(TABLE)
        first = found.newest
        up.publish(Orders("r"))
        wait_for(lambda: found.newest is not first)
        wait_for(lambda: not list((tmp_path / "kept" / "tables").iterdir()))
        up.publish(first.orders)
        wait_for(lambda: found.newest is not None and bool(found.newest.tables))
    (tmp_path / "up" / "orders.json").unlink()
    with following(tmp_path) as found:
        assert found.newest is not None
        assert found.newest.tables["c"].equals(TABLE)


def test_a_damaged_table_is_not_used(tmp_path: Path) -> None:
    up = upper(tmp_path)
    name = kept_table(up)
    path = tmp_path / "up" / "tables" / f"{name}.arrow"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"x")
    up.publish(Orders("r", tables={"c": name}))
    with following(tmp_path) as found:
        assert found.newest is None
        assert "damaged" in (found.problem or "")
        path.write_bytes(whole)
        wait_for(lambda: found.newest is not None)
        wait_for(lambda: found.problem is None)


def test_texts_that_are_no_orders_change_nothing(tmp_path: Path) -> None:
    upper(tmp_path).publish(Orders("r"))
    with following(tmp_path) as found:
        first = found.newest
        (tmp_path / "up" / "orders.json").write_text("{}")
        wait_for(lambda: found.problem is not None)
        assert found.newest is first


def test_orders_that_can_not_be_followed_leave_the_old_ones(tmp_path: Path) -> None:
    orders = orders_for(QUERIES)
    wrong = replace(orders_for({"groups": QUERIES["groups"]}), queries={"called": called_query()})
    upper(tmp_path).publish(orders)
    write_files(tmp_path, 2)
    told: list[str] = []
    with Running(make_agent(tmp_path, Mode.LIVE, report=told.append)) as running:
        running.wait_for(lambda: running.agent.progress().rows.read == 24)
        upper(tmp_path).publish(wrong)
        running.wait_for(lambda: bool(told))
        assert running.agent.progress().plan == orders.plan_id
        write_files(tmp_path, 3, first=2)
        running.wait_for(lambda: running.agent.progress().rows.read == 36)
    assert told == ["new orders can't be followed: the queries call twice, which this edge does not know"]


def test_who_reads_only_what_is_there_does_not_wait_for_better_orders(tmp_path: Path) -> None:
    upper(tmp_path).publish(replace(orders_for(QUERIES), queries={"called": called_query()}))
    write_files(tmp_path, 1)
    with pytest.raises(UsageError, match="the queries call twice"):
        make_agent(tmp_path, Mode.ONCE).run()


TWICE = UserFunction("twice", (BIGINT,), BIGINT, lambda value: 2 * value)


def with_function() -> Catalog:
    return replace(CATALOG, functions=(TWICE,))


def called_query() -> Query:
    return parse_query(
        "SELECT sum(twice(v)) AS v FROM r [RANGE '1 s'] WHERE v IN (1, 2) OR k LIKE 'a%'", with_function()
    )


def test_functions_of_users_must_be_known() -> None:
    orders = replace(orders_for(QUERIES), queries={"called": called_query()})
    check_functions(orders, with_function())
    with pytest.raises(UsageError, match="the queries call twice"):
        check_functions(orders, CATALOG)


def test_only_what_is_asked_for_is_read() -> None:
    assert ordered_columns(orders_for({"counts": QUERIES["counts"]}), STREAM) == {"t", "v"}
    assert ordered_columns(Orders("r"), STREAM) == {"t", "k", "v", "x"}
    assert ordered_columns(orders_for({"counts": QUERIES["counts"]}), replace(STREAM, partition="k")) == {"t", "k", "v"}


def test_columns_must_be_declared_as_at_the_root() -> None:
    """A plan made for another declaration would read values as what they are not."""
    columns = tuple(replace(each, type=DOUBLE) if each.name == "v" else each for each in STREAM.columns)
    other = replace(CATALOG, streams=(replace(STREAM, columns=columns),))
    orders = orders_for(QUERIES)
    work_for(orders, CATALOG, {}, 1 << 20)
    with pytest.raises(UsageError, match=r"the plan reads r\.v as BIGINT"):
        work_for(orders, other, {}, 1 << 20)
