"""Level 1 at the edge over packets: more rows, and what happens on the way."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.edge.tables.coders import ValueCoder
from headrace.edge.tables.level1 import LevelOne
from headrace.edge.tables.spans import spans_of
from headrace.edge.tables.tables import Flush, Replacement
from headrace.edge.tables.text import explain_level
from headrace.engine.answers import (
    Answers,
    answer,
    close_all,
    plan_for,
)
from headrace.expressions.static_tables import Data
from headrace.kernel.interchange import unpack
from headrace.kernel.level1.reader import ReadResult
from headrace.model.errors import UsageError
from headrace.model.query import Query
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand
from headrace.planner.draft import apart, price_plan
from headrace.planner.statistics import draw
from headrace.sql import parse_query, parse_script
from headrace.wire.orders import Orders
from tests.edge.tables.test_level1 import level_one, through_the_edge
from tests.oracle.test_kernel import CATALOG, MAX_EMPTY

PAIRS = ("AB", "BC", "BD", "CD")
PACKETS = parse_script(
    "CREATE STREAM p (t TIMESTAMP, A BIGINT, B BIGINT, C BIGINT, D BIGINT, s STRING, x DOUBLE, m DECIMAL(30, 2)) "
    "EVENT TIME t"
).catalog


def packets(rows: int, seed: int = 1, *, values: int = 6, seconds: int = 20) -> pa.Table:
    random = np.random.default_rng(seed)
    columns = {name: pa.array(random.integers(-3, values - 3, rows)) for name in "ABCD"}
    numbers = random.integers(-(10**6), 10**6, rows)
    return pa.table(
        {
            "t": pa.array(np.sort(random.integers(0, seconds * 10**6, rows))).cast(pa.timestamp("us", "UTC")),
            **columns,
            "s": pa.array([f"value {number}" for number in random.integers(0, values**3, rows)]),
            "x": pa.array(numbers / 8, mask=numbers % 5 == 0),
            "m": pa.array(numbers).cast(pa.decimal128(30, 2)),
        }
    )


def packet_queries(items: str, groups: Sequence[str] = PAIRS, where: str = "") -> dict[str, Query]:
    return {
        f"{group}{length}": parse_query(
            f"SELECT {', '.join(group)}, {items} FROM p [RANGE '{length} s'] {where} GROUP BY {', '.join(group)}",
            PACKETS,
        )
        for group in groups
        for length in (2, 5)
    }


def packet_data(rows: pa.Table) -> Data:
    return Data(PACKETS, PACKETS.streams[0], rows, {})


def in_any_order(answers: Answers) -> dict[str, list[str]]:
    return {name: sorted(map(repr, closed.table.to_pylist())) for name, closed in answers.closed.items()}


def check(rows: pa.Table, asked: dict[str, Query], batch_rows: int = 700, **options: Any) -> None:
    """All sums are exact here, those of DOUBLEs too."""
    data = packet_data(rows)
    plan = plan_for(data, asked)
    batches = [rows.slice(begin, batch_rows) for begin in range(0, rows.num_rows, batch_rows)]
    frames = [batches[:2], batches[2:]]
    expected = answer(data, asked, plan)
    assert in_any_order(through_the_edge(data, asked, plan, frames, **options)) == in_any_order(expected)


def edge_for(rows: pa.Table, asked: dict[str, Query], **options: Any) -> LevelOne:
    return level_one(Orders("p", plan_for(packet_data(rows), asked), asked), PACKETS, **options)


def replaced(rows: pa.Table, name: str, values: Any) -> pa.Table:
    place = rows.column_names.index(name)
    return rows.set_column(place, name, pa.array(values, rows.schema.field(name).type))


ALL = "count(*) AS k, count(x) AS l, sum(x) AS y, min(x) AS lo, max(x) AS hi, sum(m) AS z, max(D) AS d1, min(D) AS d2"


@pytest.mark.parametrize("replacement", Replacement)
@pytest.mark.parametrize("flush", Flush)
@pytest.mark.parametrize("memory_bytes", [1, 1 << 20])
def test_pairs_of_packets(replacement: Replacement, flush: Flush, memory_bytes: int) -> None:
    for where in ("", "WHERE A + B > 1"):
        asked = packet_queries(ALL, where=where)
        check(packets(3_000), asked, replacement=replacement, flush=flush, memory_bytes=memory_bytes)


def test_rows_in_any_order() -> None:
    rows = packets(2_000)
    mixed = rows.take(pa.array(np.random.default_rng(2).permutation(2_000)))
    check(mixed, packet_queries("count(*) AS k"))
    check(mixed, packet_queries("count(*) AS k"), span_rows=300)


def test_spans_have_each_slice_once_and_say_where_its_rows_are() -> None:
    rows = packets(500)
    mixed = rows.take(pa.array(np.random.default_rng(3).permutation(500)))
    edge = edge_for(rows, packet_queries("count(*) AS k"))
    source = edge.prepare_rows(mixed)
    positions, spans = spans_of(source, edge.table_sets[0].boundaries)
    assert positions is not None
    assert sorted(positions) == list(range(500))
    assert [span.start_us for span in spans] == sorted({span.start_us for span in spans})
    for span in spans:
        times_us = source.times_us[positions[span.begin : span.end]]
        assert span.start_us <= times_us.min()
        assert times_us.max() < span.end_us


def test_a_few_late_rows_do_not_turn_the_tables() -> None:
    rows, asked = packets(2_000, seconds=4), packet_queries("count(*) AS k", ["AB"])
    late = pa.concat_tables([rows.slice(1_500), rows.slice(0, 3), rows.slice(3, 1_497)])
    check(late, asked, span_rows=100)
    edge = edge_for(rows, asked, span_rows=100)
    edge.feed(rows.slice(1_500))
    before = edge.configurations[0][1]
    edge.feed(rows.slice(0, 3))
    assert edge.configurations[0][1] == before


def test_numbers_that_need_ever_more_bits() -> None:
    rows = packets(1_000)
    far = [2**place * (-1) ** place for place in range(62)]
    grown = replaced(rows, "A", [far[row // 10] if row < 620 else None for row in range(1_000)])
    check(grown, packet_queries("count(*) AS k"), batch_rows=10)
    check(replaced(rows, "A", [2**63 - 1, -(2**63)] * 500), packet_queries("count(*) AS k, max(A) AS m, sum(A) AS z"))


def test_null_may_come_at_any_time_and_least_and_greatest_do_not_take_it_for_a_number() -> None:
    rows = packets(1_000)
    below = replaced(rows, "D", [None if row % 3 == 0 and row > 500 else -5 - row % 7 for row in range(1_000)])
    check(below, packet_queries("max(D) AS hi, min(-D) AS lo, sum(D) AS z, count(D) AS k", ["AB", "BC"]), batch_rows=9)


@pytest.mark.parametrize("wild", [float("inf"), float("nan"), 1.7e308, -1.7e308])
def test_sums_that_leave_the_numbers(wild: float) -> None:
    rows = packets(1_000)
    check(replaced(rows, "x", [wild if row % 5 == 0 else 1.0 for row in range(1_000)]), packet_queries("sum(x) AS y"))


def test_sums_that_leave_the_numbers_and_come_back() -> None:
    rows = replaced(packets(1_000), "A", [1] * 1_000)
    there_and_back = replaced(rows, "x", [1.7e308, 1.7e308, -1.7e308, -1.7e308] * 250)
    check(there_and_back, packet_queries("sum(x) AS y", ["A"]))


def test_sums_that_grew_large_are_kept_as_halves_from_then_on() -> None:
    rows, asked = replaced(packets(1_000), "D", [2**53] * 1_000), packet_queries("sum(D) AS z", ["AB"])
    check(rows, asked, batch_rows=100)
    edge = edge_for(rows, asked)
    wide = []
    for begin in range(0, 1_000, 100):
        edge.feed(rows.slice(begin, 100))
        wide.append(edge.operands[0].is_wide)
    assert wide == [False] * 5 + [True] * 5


def test_sums_of_whole_numbers_that_do_not_fit_a_word() -> None:
    rows = packets(1_000)
    large = replaced(rows, "D", [2**63 - 1 - row for row in range(1_000)])
    found = packet_queries("sum(D) AS z, avg(D) AS mean", ["AB"])
    check(large, found)
    check(replaced(rows, "m", [Decimal("9" * 28) - row for row in range(1_000)]), packet_queries("sum(m) AS z"))
    check(replaced(rows, "m", [Decimal("9" * 27) * (-1) ** row for row in range(1_000)]), packet_queries("sum(m) AS z"))


# Values of any length


@pytest.mark.parametrize("memory_bytes", [1, 50_000, 1 << 20])
def test_strings_are_numbers_from_a_bounded_table(memory_bytes: int) -> None:
    rows, asked = packets(3_000, values=12), packet_queries("count(*) AS k", ["s", "sA", "As"])
    check(rows, asked, memory_bytes=memory_bytes)
    edge = edge_for(rows, asked, memory_bytes=memory_bytes)
    (table,) = (coder for coder in edge.coders if isinstance(coder, ValueCoder))
    for begin in range(0, 3_000, 100):
        edge.feed(rows.slice(begin, 100))
        assert len(table.known) <= table.most_values
    assert edge.is_full == (memory_bytes < 1 << 20)
    edge.cut()
    assert not edge.is_full
    assert len(table.known) == 0


def test_null_and_empty_strings_are_different() -> None:
    rows = packets(900)
    check(replaced(rows, "s", ["", None, "a"] * 300), packet_queries("count(*) AS k", ["s", "sB"]), batch_rows=7)


# Memory


def test_memory_is_bounded_if_frames_are_cut_when_they_should_be() -> None:
    asked = packet_queries("count(*) AS k, sum(x) AS y")
    rows = packets(60_000, values=40)
    edge = edge_for(rows, asked, memory_bytes=1 << 20)
    cuts = 0
    for begin in range(0, rows.num_rows, 2_000):
        edge.feed(rows.slice(begin, 2_000))
        assert edge.nbytes <= 2 * 2**20
        if edge.is_full:
            cuts += 1
            edge.cut()
    assert 1 <= cuts <= 15


def test_what_waits_is_combined_before_a_frame_is_asked_for() -> None:
    """Tables of a few entries evict nearly every row, but there are few groups."""
    rows, asked = packets(30_000, values=3, seconds=4), packet_queries("count(*) AS k", ["AB"])
    edge = edge_for(rows, asked, memory_bytes=60_000, replacement=Replacement.DIRECT_MAPPED)
    edge.feed(rows)
    evicted = sum(counts[-1].evictions for _, counts in edge.configurations)
    assert not edge.is_full
    assert sum(table.num_rows for table in edge.cut()) <= 3 * 3 * 3
    check(rows, asked, batch_rows=4_000, memory_bytes=60_000)
    assert evicted > 0


# Configurations


def test_a_phantom_is_chosen_and_others_when_the_data_change() -> None:
    asked = packet_queries("count(*) AS k")
    few, many = packets(20_000, values=3), packets(20_000, values=30)
    edge = edge_for(few, asked, memory_bytes=1 << 19)
    edge.feed(few)
    edge.cut()
    edge.feed(few)
    ((first, _),) = edge.configurations
    assert frozenset("ABCD") in {table.attributes for table in first.tables if not table.is_query}
    edge.feed(many)
    assert edge.configurations[0][0] == first
    edge.cut()
    edge.feed(many)
    ((second, _),) = edge.configurations
    assert second != first
    edge.cut()
    edge.feed(many)
    assert edge.configurations[0][0] == second


def test_tables_that_get_no_rows_do_not_hold_the_others_back() -> None:
    never = packet_queries("count(*) AS k", ["CD"], where="WHERE D > 1000")
    asked = {**packet_queries("count(*) AS k"), **{f"never {name}": query for name, query in never.items()}}
    few, many = packets(20_000, values=3), packets(20_000, values=30)
    data = packet_data(few)
    cost = Cost(draw(data, asked.values()), Constants())
    demands = {name: demand(query) for name, query in asked.items()}
    edge = level_one(Orders("p", price_plan(apart(demands), demands, cost), asked), PACKETS, memory_bytes=1 << 19)
    found = []
    for rows in (few, many, many):
        edge.feed(rows)
        found.append([configuration for configuration, _ in edge.configurations])
        edge.cut()
    assert len(found[0]) < len(edge.table_sets)
    assert found[1] != found[2]


def test_the_configuration_in_words() -> None:
    rows = packets(5_000)
    assert explain_level(edge_for(rows, packet_queries("max(s) AS longest"))).startswith("by the kernel: 4 nodes")
    edge = edge_for(rows, packet_queries("count(*) AS k"))
    assert "no rows yet" in explain_level(edge)
    edge.feed(rows)
    lines = explain_level(edge).splitlines()
    assert lines[0].startswith("tables for 4 nodes")
    assert any(line.startswith("  phantom A, B, C, D:") for line in lines)
    assert sum("query" in line for line in lines) == 4


def test_rows_find_their_partners() -> None:
    catalog = parse_script(
        "CREATE STREAM p (t TIMESTAMP, A BIGINT) EVENT TIME t;CREATE TABLE names (id BIGINT, name STRING, size BIGINT)"
    ).catalog
    text = "SELECT name, count(*) AS k, sum(size) AS z FROM p [RANGE '2 s'] JOIN names ON A = id GROUP BY name"
    asked = {
        "q": parse_query(text, catalog),
        "all": parse_query("SELECT A, count(*) AS k FROM p [RANGE '2 s'] GROUP BY A", catalog),
    }
    names = pa.table({"id": [0, 1, 2], "name": ["none", "one", None], "size": pa.array([5, None, 7], pa.int64())})
    rows = packets(600).select(["t", "A"])
    data = Data(catalog, catalog.streams[0], rows, {"names": names})
    plan = plan_for(data, asked)
    edge = LevelOne(Orders("p", plan, asked), catalog, data.tables, span_rows=1)
    edge.feed(rows)
    run, nodes = ReadResult(), {plan.nodes[place].node: place for place in plan.shipped}
    run.retained.add(plan, {nodes[part.node]: part for part in unpack("p", edge.cut(), nodes)})
    found = Answers(close_all(run, data, asked, MAX_EMPTY), 600, 0)
    assert in_any_order(found) == in_any_order(answer(data, asked, plan))


def test_without_a_plan_there_is_nothing_to_run() -> None:
    with pytest.raises(UsageError, match="no plan"):
        LevelOne(Orders("r"), CATALOG, {})
