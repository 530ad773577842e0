"""Fixed-memory tables: whatever leaves them adds up to the exact aggregates, slice after slice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.edge.tables.loops import feed_rows
from headrace.edge.tables.memory_layout import StateColumn, StateKind
from headrace.edge.tables.tables import CHUNK, Evicted, Flush, Replacement, TableCounts, Tables
from headrace.planner.phantoms.configuration import Configuration, EdgeTable

Integers = npt.NDArray[np.int64]
State = tuple[int | float, ...]
Group = tuple[int, int, tuple[int, ...]]

COLUMNS = (
    StateColumn(StateKind.GREATEST_DOUBLE, 1),
    StateColumn(StateKind.SUM, 0),
    StateColumn(StateKind.LEAST, 0),
    StateColumn(StateKind.COUNT),
    StateColumn(StateKind.DOUBLE_SUM, 1),
    StateColumn(StateKind.GREATEST, 0),
    StateColumn(StateKind.LEAST_DOUBLE, 1),
)
PAIRS = ("AB", "BC", "BD", "CD")


def combined(one: State, other: State) -> State:
    folds = (max, wrapped_sum, min, wrapped_sum, float.__add__, max, min)
    return tuple(fold(a, b) for fold, a, b in zip(folds, one, other, strict=True))  # type: ignore[operator]


def wrapped_sum(one: int, other: int) -> int:
    return (one + other + 2**63) % 2**64 - 2**63


def pairs_by_phantom(phantom: int, query: int) -> Configuration:
    tables = [EdgeTable(frozenset("ABCD"), None, False, phantom)]
    return Configuration((*tables, *(EdgeTable(frozenset(pair), 0, True, query) for pair in PAIRS)))


def one_table(entries: int) -> Configuration:
    return Configuration((EdgeTable(frozenset("A"), None, True, entries),))


def groups_of(evicted: Iterable[Evicted]) -> list[tuple[Group, State]]:
    return [
        ((part.query, part.slice, tuple(codes)), tuple(state))
        for part in evicted
        for codes, state in zip(
            part.codes.T.tolist(), zip(*(v.tolist() for v in part.values), strict=True), strict=True
        )
    ]


def added_up(rows: Iterable[tuple[Group, State]]) -> dict[Group, State]:
    totals: dict[Group, State] = {}
    for group, state in rows:
        totals[group] = combined(totals[group], state) if group in totals else state
    return totals


@dataclass(frozen=True)
class Row:
    codes: tuple[int, ...]
    value: int
    double: float


@dataclass(frozen=True)
class Case:
    configuration: Configuration
    sizes: dict[str, int | None]
    spans: list[tuple[int, list[Row]]]


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    """Any trees over A to D: each table is fed by the stream or by one that groups by more."""
    groups = draw(st.lists(st.frozensets(st.sampled_from("ABCD"), min_size=1), min_size=1, max_size=7))
    tables: list[EdgeTable] = []
    for attributes in sorted(groups, key=len, reverse=True):
        above = [place for place, table in enumerate(tables) if attributes < table.attributes]
        parent = draw(st.sampled_from([None, *above]))
        tables.append(EdgeTable(attributes, parent, draw(st.booleans()), draw(st.integers(1, 6))))
    return Configuration(tuple(tables))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = {name: draw(st.sampled_from([1, 2, 3, 2**31, 2**63, None])) for name in "ABCD"}
    codes = [
        st.integers(0, min(size, 3) - 1) | st.just(size - 1)
        if size is not None
        else st.sampled_from([0, 1, -1, -(2**63), 2**63 - 1])
        for size in sizes.values()
    ]
    values = st.integers(-5, 5) | st.sampled_from([2**63 - 1, -(2**63)])
    doubles = st.integers(-5, 5).map(float)
    rows = st.lists(st.builds(Row, st.tuples(*codes), values, doubles), max_size=30)
    spans = draw(st.lists(st.tuples(st.integers(-3, 3), rows), max_size=6))
    return Case(draw(configurations()), sizes, sorted(spans, key=lambda span: span[0]))


def fed(tables: Tables, slice_: int, rows: Sequence[Row]) -> list[Evicted]:
    codes = np.array([row.codes for row in rows], dtype=np.int64).reshape(-1, 4).T
    values = np.array([row.value for row in rows], dtype=np.int64)
    return list(tables.feed(codes, (values, np.array([row.double for row in rows], dtype=np.float64)), slice_))


def exact(case: Case) -> dict[Group, State]:
    return added_up(
        (
            (number, slice_, tuple(code for name, code in zip("ABCD", row.codes, strict=True) if name in kept)),
            (row.double, row.value, row.value, 1, row.double, row.value, row.double),
        )
        for number, kept in enumerate(table.attributes for table in case.configuration.tables)
        if case.configuration.tables[number].is_query
        for slice_, rows in case.spans
        for row in rows
    )


@given(
    cases(),
    st.sampled_from(Replacement),
    st.sampled_from(Flush),
    st.integers(1, 5),
    st.integers(1, 3),
)
def test_what_leaves_adds_up_and_keeps_the_order_of_slices(
    case: Case, replacement: Replacement, flush: Flush, buffered: int, swept: int
) -> None:
    tables = Tables(
        case.configuration,
        COLUMNS,
        case.sizes,
        replacement=replacement,
        flush=flush,
        buffered=buffered,
        swept=swept,
    )
    evicted = [part for slice_, rows in case.spans for part in fed(tables, slice_, rows)]
    evicted += tables.flush()
    assert added_up(groups_of(evicted)) == exact(case)
    assert all(1 <= len(part) <= buffered for part in evicted)
    for query in range(len(case.configuration.tables)):
        slices = [part.slice for part in evicted if part.query == query]
        assert slices == sorted(slices)
    check_counts(case, tables.counts, evicted)
    assert list(tables.flush()) == []


def check_counts(case: Case, counts: tuple[TableCounts, ...], evicted: list[Evicted]) -> None:
    for number, (table, counted) in enumerate(zip(case.configuration.tables, counts, strict=True)):
        above = sum(len(rows) for _, rows in case.spans) if table.parent is None else counts[table.parent].evictions
        assert counted.probes == above
        assert counted.evictions == counted.probes - counted.hits >= counted.collisions
        if table.is_query:
            assert counted.evictions == sum(len(part) for part in evicted if part.query == number)


@pytest.mark.parametrize("replacement", Replacement)
@pytest.mark.parametrize("flush", Flush)
def test_many_rows_go_through_small_tables(replacement: Replacement, flush: Flush) -> None:
    random = np.random.default_rng(7)
    rows = 3 * CHUNK + 5
    codes, values = random.integers(0, 9, (4, rows)), random.integers(-100, 100, rows)
    tables = Tables(
        pairs_by_phantom(300, 20),
        [StateColumn(StateKind.COUNT), StateColumn(StateKind.SUM, 0)],
        dict.fromkeys("ABCD", 9),
        replacement=replacement,
        flush=flush,
        buffered=50,
    )
    bytes_before = tables.nbytes
    found = np.zeros((2, 5, 9, 9, 2), dtype=np.int64)
    for slice_ in (0, 1):
        for part in tables.feed(codes, [values], slice_):
            np.add.at(found[part.slice, part.query], tuple(part.codes), np.stack(part.values, axis=1))
    for part in tables.flush():
        np.add.at(found[part.slice, part.query], tuple(part.codes), np.stack(part.values, axis=1))
    for query, pair in enumerate(PAIRS, start=1):
        expected = np.zeros((9, 9, 2), dtype=np.int64)
        places = tuple(codes["ABCD".index(name)] for name in pair)
        np.add.at(expected, places, np.stack([np.ones(rows, dtype=np.int64), values], axis=1))
        assert (found[:, query] == expected).all()
    assert tables.nbytes == bytes_before


def test_the_greatest_double_is_nan() -> None:
    tables = Tables(
        one_table(4), [StateColumn(StateKind.LEAST_DOUBLE, 0), StateColumn(StateKind.GREATEST_DOUBLE, 0)], {"A": 3}
    )
    codes = np.array([[0, 0, 0, 1, 1, 2]])
    list(tables.feed(codes, [np.array([1.5, -math.nan, -math.inf, -2.5, -0.5, math.nan])], 0))
    found = {group[2]: state for group, state in groups_of(tables.flush())}
    assert found[(0,)][0] == -math.inf
    assert math.isnan(found[(0,)][1])
    assert found[(1,)] == (-2.5, -0.5)
    assert all(math.isnan(value) for value in found[(2,)])


@pytest.mark.parametrize("replacement", Replacement)
def test_a_lazy_flush_is_spread_over_the_next_rows_and_ends(replacement: Replacement) -> None:
    """Of 5 tables with 64 entries each, 4 are looked at with each row: after 80 rows all is out."""

    def evicted_by(flush: Flush, rows: int) -> list[tuple[Group, State]]:
        random = np.random.default_rng(3)
        tables = Tables(
            pairs_by_phantom(64, 64),
            [StateColumn(StateKind.COUNT)],
            dict.fromkeys("ABCD", 50),
            replacement=replacement,
            flush=flush,
            buffered=1,
            swept=4,
        )
        old = groups_of(tables.feed(random.integers(0, 50, (4, 500)), [], 0))
        new = groups_of(tables.feed(np.zeros((4, rows), dtype=np.int64), [], 1))
        assert all(group[1] == 0 for group, _ in old)
        return old + new

    def rows_out(flush: Flush, rows: int) -> int:
        return sum(int(state[0]) for group, state in evicted_by(flush, rows) if group[1] == 0)

    everything = 4 * 500
    assert rows_out(Flush.EAGER, 1) == everything
    assert rows_out(Flush.LAZY, 1) < rows_out(Flush.LAZY, 40) < everything
    assert rows_out(Flush.LAZY, 80) == everything


def test_older_rows_pass_a_newer_entry_by() -> None:
    """A newer group that came down to the query stays there while the older ones leave the phantom."""
    phantom = EdgeTable(frozenset("AB"), None, False, 64)
    tables = Tables(
        Configuration((phantom, EdgeTable(frozenset("A"), 0, True, 1))),
        [StateColumn(StateKind.COUNT)],
        {"A": 1000, "B": 1000},
        swept=1,
    )
    numbers = np.arange(1, 61)
    evicted = groups_of(tables.feed(np.stack([numbers, numbers]), [], 0))
    evicted += groups_of(tables.feed(np.stack([np.zeros_like(numbers), numbers]), [], 1))
    collisions = tables.counts[1].collisions
    evicted += groups_of(tables.flush())
    assert [(group, state) for group, state in evicted if group[1] == 1] == [((1, 1, (0,)), (60,))]
    assert collisions > 60 - 64 / 2
    assert sorted(group[2][0] for group, _ in evicted if group[1] == 0) == numbers.tolist()


def test_collisions_are_as_many_as_the_model_says() -> None:
    """Of g groups in b entries, those beyond the first in an entry collide [GS 4]."""
    groups, entries = 2000, 3000
    codes = np.random.default_rng(5).integers(0, groups, (1, 200_000))

    def measured(replacement: Replacement) -> float:
        tables = Tables(one_table(entries), [StateColumn(StateKind.COUNT)], {"A": groups}, replacement=replacement)
        list(tables.feed(codes, [], 0))
        return tables.counts[0].collision_rate

    expected = 1 - entries * (1 - (1 - 1 / entries) ** groups) / groups
    assert measured(Replacement.DIRECT_MAPPED) == pytest.approx(expected, abs=0.02)
    assert measured(Replacement.SECOND_CHANCE) < expected / 2


def test_one_loop_runs_every_configuration() -> None:
    for configuration in (one_table(3), pairs_by_phantom(5, 2)):
        for size in (4, None):
            tables = Tables(configuration, COLUMNS, dict.fromkeys("ABCD", size))
            fed(tables, 0, [Row((1, 2, 3, 0), 1, 1.0)])
    assert len(feed_rows.signatures) == 1  # type: ignore[attr-defined]


def test_memory_is_the_entries_the_output_and_the_rows_in_work() -> None:
    def bytes_of(entries: int, buffered: int, size: int | None, flush: Flush = Flush.EAGER) -> int:
        configuration = Configuration((EdgeTable(frozenset("AB"), None, True, entries),))
        return Tables(
            configuration, [StateColumn(StateKind.COUNT)], {"A": size, "B": size}, flush=flush, buffered=buffered
        ).nbytes

    assert bytes_of(110, 10, 99) - bytes_of(10, 10, 99) == 100 * 8 * (1 + 1 + 1)
    assert bytes_of(110, 10, None) - bytes_of(10, 10, None) == 100 * 8 * (1 + 2 + 1)
    assert bytes_of(10, 110, 99) - bytes_of(10, 10, 99) == 100 * 8 * (1 + 1)
    assert bytes_of(10, 110, 99, Flush.LAZY) - bytes_of(10, 10, 99, Flush.LAZY) == 2 * 100 * 8 * (1 + 1)


def test_what_does_not_fit_is_refused() -> None:
    count = [StateColumn(StateKind.COUNT)]
    with pytest.raises(ValueError, match="no codes are given for A"):
        Tables(one_table(1), count, {"B": 2})
    with pytest.raises(ValueError, match="without tables"):
        Tables(Configuration(()), count, {"B": 2})
    with pytest.raises(ValueError, match="more than 4294967295 entries"):
        Tables(one_table(2**32), count, {"A": 2})
    with pytest.raises(ValueError, match="a code space of 0 codes"):
        Tables(one_table(1), count, {"A": 0})
    with pytest.raises(ValueError, match="at least one row is buffered"):
        Tables(one_table(1), count, {"A": 2}, buffered=0)
    with pytest.raises(ValueError, match="a sum of the value column None"):
        StateColumn(StateKind.SUM)
    with pytest.raises(ValueError, match="numbered from 0"):
        StateColumn(StateKind.SUM, -1)


def test_what_is_fed_is_checked() -> None:
    tables = Tables(one_table(2), [StateColumn(StateKind.SUM, 0)], {"A": 4})
    codes, values = np.array([[3, 1]]), np.array([5, 6])
    with pytest.raises(ValueError, match="codes are 64-bit integers, 1 for each row"):
        tables.feed(codes[0], [values], 0)
    with pytest.raises(ValueError, match="a sum is of one int64 for each row"):
        tables.feed(codes, [values.astype(np.float64)], 0)
    with pytest.raises(ValueError, match="a sum is of one int64 for each row"):
        tables.feed(codes, [values[:1]], 0)
    for wrong in (4, -1):
        with pytest.raises(ValueError, match="A has a code out of its code space"):
            list(Tables(one_table(2), [StateColumn(StateKind.COUNT)], {"A": 4}).feed(np.array([[0, wrong]]), [], 0))


def test_evicted_rows_are_read_to_their_end() -> None:
    tables = Tables(one_table(1), [StateColumn(StateKind.COUNT)], {"A": 4}, buffered=1)
    next(tables.feed(np.array([[3, 1, 2]]), [], 0))
    with pytest.raises(RuntimeError, match="not read to their end"):
        list(tables.flush())
