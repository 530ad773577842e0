"""Random queries that are accepted, over a few random rows: the kernel and the reference give the same rows, the same
number of row errors, or the same error.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import pytest

from headrace.engine.answers import answer
from headrace.model.arrow import plain_values
from headrace.model.errors import HeadraceError, UnsupportedError
from headrace.model.query import Query
from headrace.reference import Interpreter
from headrace.sql import NamedQuery, ScriptReader, format_query, parse_query
from tests.faults.sql_data import PARTNERS, STREAM, Row, data_of, random_rows
from tests.faults.sql_grammar import CATALOG, Grammar

SHORT, LONG = range(2), range(200, 240)
STATEMENTS = 40
"""By seed."""
MAX_EMPTY = 3
ROUNDING, RELATIVE = 1e-9, 0.011
Answer = tuple[list[tuple[Any, ...]], int]
"""Rows, and the number of row errors."""


def from_reference(query: Query, rows: list[Row]) -> Answer:
    interpreter = Interpreter(STREAM, {"k": PARTNERS}, max_empty=MAX_EMPTY)
    interpreter.register("q", query)
    steps = [interpreter.batch(rows), interpreter.end()]
    results = [row for step in steps for result in step.results for row in result.rows]
    return results, sum(step.counts.errors.get("q", 0) for step in steps)


def from_kernel(query: Query, rows: list[Row]) -> Answer:
    closed = answer(data_of(rows), {"q": query}, max_empty=MAX_EMPTY, threads=1).closed["q"]
    columns = [plain_values(closed.table.column(column.name), column.type) for column in query.result_columns()]
    return list(zip(*columns, strict=True)), closed.errors


def compare(query: Query, rows: list[Row]) -> str:
    """How it went: same, same error, or unsupported by the reference."""
    try:
        theirs = from_reference(query, rows)
    except UnsupportedError:
        from_kernel(query, rows)
        return "unsupported"
    except HeadraceError as problem:
        with pytest.raises(type(problem)):
            from_kernel(query, rows)
        return "same error"
    ours = from_kernel(query, rows)
    tolerance = RELATIVE if "percentile_relative" in format_query(query) else ROUNDING
    assert len(ours[0]) == len(theirs[0])
    for our_row, their_row in zip(ours[0], theirs[0], strict=True):
        assert same(our_row, their_row, tolerance), (our_row, their_row)
    assert ours[1] == theirs[1]
    return "same"


def same(ours: Any, theirs: Any, tolerance: float) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        if not math.isfinite(ours) or not math.isfinite(theirs):
            return str(ours) == str(theirs)
        return abs(ours - theirs) <= tolerance * max(abs(ours), abs(theirs)) + 1e-12
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs, [tolerance] * len(ours)))
    return type(ours) is type(theirs) and bool(ours == theirs)


def compare_random(seed: int) -> None:
    rng, fates = random.Random(seed), Counter[str]()
    for _ in range(STATEMENTS):
        for outcome in ScriptReader(Grammar(rng, broken=0.0).select(), CATALOG).statements():
            if not isinstance(outcome, NamedQuery):
                continue
            query, rows = outcome.query, random_rows(rng, is_tame=True)
            try:
                fates[compare(query, rows)] += 1
            except (Exception, pytest.fail.Exception) as problem:
                problem.add_note(f"the query: {format_query(query)}\nthe rows: {rows}")
                raise
    assert fates["same"] >= STATEMENTS // 3


@pytest.mark.parametrize("seed", SHORT)
def test_random_queries(seed: int) -> None:
    compare_random(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG)
def test_many_random_queries(seed: int) -> None:
    compare_random(seed)


@pytest.mark.parametrize("test", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("constant", ["TRUE", "FALSE"])
def test_conditions_are_compared_with_constants(test: str, constant: str) -> None:
    """FALSE is less than TRUE; NULL is neither."""
    query = parse_query(f"SELECT count(*) AS n FROM r [RANGE 60] WHERE b {test} {constant}", CATALOG)
    rows = [{**row, "b": value} for value in (True, False, False, None) for row in random_rows(random.Random(1))[:1]]
    assert compare(query, rows) == "same"
