"""Plans that change between batches, queries that join and leave: what is complete is right, and enough.

A query that joins late is answered from partials that were kept for others where they tell its answer. So it may get
more windows than in the reference, which keeps nothing for queries to come, and never fewer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headrace.engine import answers
from headrace.engine.answers import close_all
from headrace.kernel import combine as partials
from headrace.kernel import slots
from headrace.kernel.close.retained_partials import Retained
from headrace.kernel.level1 import fan_out as fanning
from headrace.kernel.level1 import fold as computing
from headrace.kernel.level1 import reader
from headrace.kernel.level1 import rows as sources
from headrace.kernel.level1.reader import Reader, ReadResult
from headrace.model.query import Output, Query
from headrace.planner.plan import Plan
from headrace.reference import Interpreter
from headrace.reference.interpreter import ErrorCount
from headrace.sql import parse_query, parse_script
from tests.oracle.plans import plans
from tests.oracle.tables import STREAM, Row, tables
from tests.oracle.test_kernel import check, data_of, from_kernel, weights
from tests.oracle.windowed import queries

STREAM_OF_ALL = parse_script(f"{STREAM} LATENESS '1000000 s'").catalog
"""No row is late, so windows are closed at the end, as a bounded run does."""
NO_QUERIES = Plan((), (), {}, 0.0, {})

Windows = dict[tuple[int, int], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Stay:
    """A query from one batch on until another, or to the end."""

    query: Query
    joins: int
    leaves: int | None

    def is_there(self, batch: int) -> bool:
        return self.joins <= batch and (self.leaves is None or batch < self.leaves)


@dataclass(frozen=True)
class Story:
    table: list[Row]
    cuts: list[int]
    stays: dict[str, Stay]

    def batches(self) -> Iterator[tuple[int, list[Row]]]:
        return enumerate(self.table[begin:end] for begin, end in pairwise([0, *self.cuts, len(self.table)]))

    def live(self, batch: int) -> dict[str, Query]:
        return {name: stay.query for name, stay in self.stays.items() if stay.is_there(batch)}


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Some queries differ from others in their windows only, so that partials kept for one may tell the other's."""
    asked = [draw(queries()) for _ in range(draw(st.integers(1, 4)))]
    table = draw(tables(asked[0].window.unit))
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(table) - 1)), max_size=4)))
    stays = {}
    parsed = [parse_query(each.ours(), STREAM_OF_ALL) for each in asked]
    for place, own in enumerate(parsed):
        query = replace(draw(st.sampled_from(parsed)), window=own.window) if draw(st.booleans()) else own
        joins = draw(st.integers(0, len(cuts)))
        leaves = draw(st.none() | st.integers(joins + 1, len(cuts) + 1)) if place else None
        stays[f"q{place}"] = Stay(query, joins, leaves)
    return Story(table, cuts, stays)


@st.composite
def circumstances(draw: st.DrawFn) -> dict[tuple[object, str], int | float]:
    """Sizes at which the kernel does one thing or the other, so that few rows see both."""
    return {
        (slots, "DENSE_KEYS"): draw(st.sampled_from([0, slots.DENSE_KEYS])),
        (slots, "FIRST_BITS"): draw(st.sampled_from([1, slots.FIRST_BITS])),
        (reader, "CHUNK_ROWS"): draw(st.sampled_from([1, 3, reader.CHUNK_ROWS])),
        (answers, "MANY_ROWS"): draw(st.sampled_from([-1, answers.MANY_ROWS])),
        (partials, "MANY_SLICES"): draw(st.sampled_from([0, 1, partials.MANY_SLICES])),
        (computing, "WORTH_FILTERING"): draw(st.sampled_from([0.0, 1.0])),
        (computing, "MAX_TABLE_CELLS"): draw(st.sampled_from([0, sources.MAX_TABLE_CELLS])),
        (sources, "MAX_TABLE_CELLS"): draw(st.sampled_from([0, sources.MAX_TABLE_CELLS])),
        (fanning, "MAX_TABLE_CELLS"): draw(st.sampled_from([0, sources.MAX_TABLE_CELLS])),
    }


@contextmanager
def under(patched: dict[tuple[object, str], int | float]) -> Iterator[None]:
    computing.sieve_of.cache_clear()
    with ExitStack() as opened:
        for (module, name), value in patched.items():
            opened.enter_context(patch.object(module, name, value))
        yield
    computing.sieve_of.cache_clear()


def of_windows(rows: list[tuple[Any, ...]]) -> Windows:
    found: Windows = {}
    for row in rows:
        found.setdefault(row[:2], []).append(row)
    return found


def from_reference(story: Story, name: str, joins: int) -> Windows:
    """Complete windows that hold rows, with weights behind the values."""
    query = story.stays[name].query
    extra = tuple(Output(f"w{place}", tree) for place, tree in weights(query).items())
    interpreter = Interpreter(STREAM_OF_ALL.streams[0], max_empty=0)
    for batch, rows in story.batches():
        if batch == joins:
            interpreter.register(name, replace(query, outputs=(*query.outputs, *extra)))
        interpreter.batch(rows)
    return of_windows([row for result in interpreter.end().results for row in result.rows])


def compare(query: Query, ours: Windows, theirs: Windows) -> None:
    for window, rows in ours.items():
        check(query, rows, theirs.get(window, []))


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(stories(), circumstances(), st.sampled_from([0, 1_000, 1 << 30]), st.sampled_from([1, 3]), st.data())
def test_plans_and_queries_may_change_between_batches(
    story: Story,
    patched: dict[tuple[object, str], int | float],
    budget_bytes: int,
    threads: int,
    choices: st.DataObject,
) -> None:
    whole = replace(data_of(story.table), catalog=STREAM_OF_ALL, stream=STREAM_OF_ALL.streams[0])
    run = ReadResult(Retained())
    with under(patched):
        for batch, rows in story.batches():
            live = story.live(batch)
            plan = choices.draw(plans(whole, live)) if live else NO_QUERIES
            Reader(whole, live, plan, budget_bytes, threads).take_batch(run, data_of(rows).rows)
        at_the_end = story.live(len(story.cuts))
        closed = close_all(run, whole, at_the_end, max_empty=0, threads=threads)
    for name, query in at_the_end.items():
        ours = of_windows(from_kernel(closed[name], query))
        compare(query, ours, from_reference(story, name, joins=0))
        least = from_reference(story, name, story.stays[name].joins)
        assert least.keys() <= ours.keys()
        event("more than the reference" if len(ours) > len(least) else "as the reference")


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(stories(), st.data())
def test_nan_and_infinity_do_not_reach_other_queries(story: Story, choices: st.DataObject) -> None:
    """Rows that a query does not take may hold anything, whatever the plan."""
    asked = {name: stay.query for name, stay in story.stays.items()}
    query = asked["q0"]
    wild = st.sampled_from([float("nan"), float("inf"), -float("inf")])
    own = passing(query, story.table)
    table = [row if taken else row | {"x": choices.draw(wild)} for row, taken in zip(story.table, own, strict=True)]
    if passing(query, table) != own:
        event("the query would take others")
        return
    data = data_of(table)
    run = ReadResult(Retained())
    Reader(data, asked, choices.draw(plans(data, asked))).take_batch(run, data.rows)
    ours = of_windows(from_kernel(close_all(run, data, asked, max_empty=0)["q0"], query))
    theirs = from_reference(replace(story, cuts=[]), "q0", joins=0)
    assert ours.keys() == theirs.keys()
    compare(query, ours, theirs)


def passing(query: Query, table: list[Row]) -> list[bool]:
    """Which rows pass the query's WHERE."""
    interpreter = Interpreter(STREAM_OF_ALL.streams[0])
    interpreter.register("q", query)
    return [interpreter.contribute(interpreter.queries["q"], row, ErrorCount()) is not None for row in table]
