"""Partials survive the way through interchange tables and bytes, and say what they are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.engine.answers import close_all, plan_for
from headrace.kernel.interchange import (
    HEADER,
    VERSION,
    from_bytes,
    layout_of,
    node_id,
    pack,
    to_bytes,
    unpack,
)
from headrace.kernel.level1.reader import Reader, ReadResult
from headrace.model.errors import DataError
from headrace.model.query import Query
from headrace.planner.demand import demand, leaves_of
from headrace.sql import parse_query
from tests.oracle.tables import Row
from tests.oracle.test_kernel import CATALOG, cases, data_of


def shipped(run: ReadResult) -> ReadResult:
    """The same run, with every partial sent through bytes."""
    sent = ReadResult(rows=run.rows, dropped=run.dropped, errors=run.errors)
    for kept in run.retained.plans.values():
        nodes = {kept.plan.nodes[place].node: place for place in kept.plan.shipped}
        for batch in zip(*kept.parts.values(), strict=True):
            received = from_bytes(to_bytes(pack("r", batch)))
            back = {nodes[part.node]: part for part in unpack("r", received, nodes)}
            sent.retained.add(kept.plan, back)
    return sent


def told(closed: Any) -> list[Any]:
    return [repr(closed[name].table.to_pylist()) for name in closed]


def mixed(tables: Iterable[pa.Table], seed: int) -> list[pa.Table]:
    """With the rows of all nodes in another order."""
    chance = np.random.default_rng(seed)
    return [table.take(pa.array(chance.permutation(table.num_rows))) for table in tables]


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(cases(), st.integers(0, 9))
def test_rows_of_a_node_need_not_follow_each_other(case: tuple[dict[str, Query], list[Row]], seed: int) -> None:
    asked, table = case
    data = data_of(table)
    plan = plan_for(data, asked)
    run = ReadResult()
    Reader(data, asked, plan).take_batch(run, data.rows)
    nodes = [plan.nodes[place].node for place in plan.shipped]
    for kept in run.retained.plans.values():
        for batch in zip(*kept.parts.values(), strict=True):
            sent = pack("r", batch)
            whole, again = (
                {part.node: sorted(part.starts_us.tolist()) for part in unpack("r", tables, nodes)}
                for tables in (sent, mixed(sent, seed))
            )
            assert whole == again == {part.node: sorted(part.starts_us.tolist()) for part in batch if part.rows}


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(cases(), st.sampled_from([3, 100]))
def test_answers_are_the_same_after_the_journey(case: tuple[dict[str, Query], list[Row]], batch_rows: int) -> None:
    asked, table = case
    data = data_of(table)
    plan = plan_for(data, asked)
    run, reader = ReadResult(), Reader(data, asked, plan)
    for begin in range(0, len(table), batch_rows):
        reader.take_batch(run, data.rows.slice(begin, batch_rows))
    expected = close_all(run, data, asked, 3)
    assert told(close_all(shipped(run), data, asked, 3)) == told(expected)


def leaf(text: str) -> Any:
    (found,) = leaves_of({"q": demand(parse_query(text, CATALOG))})
    return found.node


def test_an_id_says_what_a_node_means() -> None:
    base = leaf("SELECT s, sum(x) FROM r [RANGE 60] WHERE i > 3 GROUP BY s")
    assert node_id("r", base) == node_id("r", leaf("SELECT sum(x) AS y, s FROM r [RANGE 60] WHERE 3 < i GROUP BY s"))
    others = [
        ("r", leaf("SELECT s, sum(x) FROM r [RANGE 60] WHERE i > 4 GROUP BY s")),
        ("r", leaf("SELECT u, sum(x) FROM r [RANGE 60] WHERE i > 3 GROUP BY u")),
        ("r", leaf("SELECT s, sum(x) FROM r [RANGE 7] WHERE i > 3 GROUP BY s")),
        ("r", leaf("SELECT s, sum(i) FROM r [RANGE 60] WHERE i > 3 GROUP BY s")),
        ("other", base),
    ]
    assert len({node_id("r", base), *(node_id(*each) for each in others)}) == 6


SOME_QUERY = "SELECT s, sum(x) FROM r [RANGE 60] WHERE (i > 3 AND b) OR u = 'z' GROUP BY s, j"


def test_an_id_is_the_same_in_every_process() -> None:
    names = "SOME_QUERY, leaf, node_id"
    code = f"from tests.kernel.test_interchange import {names}\nprint(node_id('r', leaf(SOME_QUERY)), end='')"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
        ).stdout
        for seed in ("1", "2")
    }
    assert found == {
        node_id("r", leaf("SELECT s, sum(x) FROM r [RANGE 60] WHERE (i > 3 AND b) OR u = 'z' GROUP BY s, j"))
    }


def test_the_columns_of_a_layout() -> None:
    node = leaf("SELECT s, i, sum(x), count(*), max(d) FROM r [RANGE 60] GROUP BY s, i")
    names = layout_of(node).names
    assert names[:6] == ["node", "slice_start", "slice_end", "cell", "group_0", "group_1"]
    assert sorted(name.partition("_")[0] for name in names[6:]) == ["count", "max", "sum", "sum"]


@pytest.mark.parametrize("raw", [b"", b"not arrow", to_bytes(())[:40]])
def test_damaged_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(DataError, match="interchange tables"):
        from_bytes(raw)


def test_another_version_is_refused() -> None:
    raw = to_bytes(()).replace(f'"version": {VERSION}'.encode(), b'"version": 9')
    with pytest.raises(DataError, match="another version"):
        from_bytes(raw)


@pytest.mark.parametrize("counts", [b'{"rows": 7, "late": 1, "errors": {"q": 4}, "lowest_us": null}', b"{}"])
def test_bytes_with_counts_of_earlier_versions_are_read(counts: bytes) -> None:
    table = pa.table({"node": ["a", "b"]})
    header = b'{"version": %d, "tables": 1, "counts": %s}' % (VERSION, counts)
    sink = pa.BufferOutputStream()
    for sent in (pa.table([], schema=pa.schema([], metadata={HEADER: header})), table):
        with pa.ipc.new_stream(sink, sent.schema) as writer:
            writer.write_table(sent)
    assert from_bytes(bytes(sink.getvalue())) == (table,)
