"""Who owns a group: everybody says the same, for good, and every row has one owner."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernel.close.retained_partials import Retained
from headrace.kernel.combine import NodePartials
from headrace.kernel.group_owners import key_groups_of, split
from headrace.kernel.level1.reader import Reader, ReadResult
from headrace.model.key_groups import Partitioning
from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand
from headrace.planner.statistics import draw
from headrace.sql import parse_query
from tests.oracle.tables import Row, tables
from tests.oracle.test_kernel import CATALOG, data_of


def partials(table: list[Row], groups: str) -> NodePartials:
    data = data_of(table)
    query = parse_query(f"SELECT {groups}, count(*) AS n FROM r [RANGE '1 s'] GROUP BY {groups}", CATALOG)
    plan = make_plan({"q": demand(query)}, Cost(draw(data, [query]), Constants()))
    run = ReadResult(Retained())
    Reader(data, {"q": query}, plan).take_batch(run, data.rows)
    (kept,) = run.retained.plans.values()
    return kept.parts[0][0]


@settings(max_examples=50, deadline=None)
@given(tables("s"), st.sampled_from(["s", "i", "x", "b", "d", "t", "u, i", "s, y, d"]), st.integers(1, 5))
def test_each_row_has_one_owner_by_its_group_alone(table: list[Row], groups: str, reducers: int) -> None:
    part, partitioning = partials(table, groups), Partitioning(reducers, 1)
    owners = key_groups_of(part)
    pieces = dict(split(part, partitioning))
    assert sum(piece.rows for piece in pieces.values()) == part.rows
    for reducer, piece in pieces.items():
        first, end = partitioning.key_groups(reducer)
        assert all(first <= key_group < end for key_group in key_groups_of(piece).tolist())
    keys = list(zip(*(part.groups[tree].to_pylist() for tree in part.groups), strict=True))
    by_group: dict[str, set[int]] = {}
    for key, owner in zip(keys, owners.tolist(), strict=True):
        by_group.setdefault(repr(key), set()).add(owner)
    assert all(len(found) == 1 for found in by_group.values())


def row(**values: Any) -> Row:
    return {"t": 0, "i": None, "j": None, "x": None, "y": None, "s": None, "u": None, "b": None, "d": None} | values


def test_key_groups_never_change() -> None:
    """A state directory is laid out by them."""
    table = [
        row(s=text, i=place, x=place / 3, d=Decimal(place), b=place % 2 == 0)
        for place, text in enumerate(
            ["", "a", "abcdefg", "abcdefgh", "\u00e9\u4e2d", "a much longer text than eight bytes"]
        )
    ]
    found = {groups: key_groups_of(partials(table, groups)).tolist() for groups in ("s", "i", "x", "d", "b", "s, i")}
    assert found == EXPECTED


EXPECTED = {
    "s": [3668, 3872, 1492, 3274, 1942, 3068],
    "i": [3668, 0, 2207, 1460, 361, 1319],
    "x": [3668, 3114, 3240, 414, 2637, 3165],
    "d": [0, 1582, 1209, 4094, 2239, 301],
    "b": [883, 2493],
    "s, i": [3437, 3872, 2607, 2926, 3572, 2541],
}


def test_equal_values_have_one_owner() -> None:
    part = partials([row(y=value) for value in (0.0, -0.0, math.nan, -math.nan)], "y")
    assert part.rows == 2
    assert len(np.unique(key_groups_of(part))) == 2
