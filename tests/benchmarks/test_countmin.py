"""Count-min sketches: never too low, equal bytes in any order, the strategies of both levels, bytes from elsewhere."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.sketches.countmin import CountMin, Estimates
from benchmarks.sketches.countmin_loops import Integers
from benchmarks.sketches.countmin_strategies import (
    HIGH,
    LOW,
    PAPER,
    Adaptive,
    Held,
    LowSketch,
    Pairs,
)
from headrace.kernel.sketches.packed_bytes import STATE
from headrace.model.errors import DataError, HeadraceError, UsageError
from headrace.model.types import MAX_BIGINT
from tests.kernel.sketches.mutations import attack, check_survived, needs_limit

SHAPES = [CountMin(), CountMin(1, 2, 5, 1), CountMin(3, 16, 20, 6), CountMin(2, 64, 62, 8), CountMin(4, 64, 7, 3)]
shapes = pytest.mark.parametrize("sketch", SHAPES, ids=str)
examples = settings(max_examples=15)
Row = tuple[int, int | None, int]
"""Slot, key and weight."""


@st.composite
def rows_of(draw: st.DrawFn, sketch: CountMin) -> list[Row]:
    keys = st.one_of(st.none(), st.integers(0, 3), st.integers(0, 2**sketch.key_bits - 1))
    chosen = draw(st.lists(keys, min_size=1, max_size=8))
    weights = st.one_of(st.integers(-1, 4), st.integers(0, 10**12))
    return draw(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(chosen), weights), max_size=40))


def lifted(rows: list[Row], sketch: CountMin) -> pa.Array:
    slots = np.array([slot for slot, _, _ in rows], np.int64)
    keys = pa.array([key for _, key, _ in rows], pa.int64())
    return sketch.lift(slots, 5, keys, pa.array([weight for _, _, weight in rows], pa.int64()))[0]


def exact(rows: list[Row]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for _, key, weight in rows:
        if key is not None and weight > 0:
            counts[key] += weight
    return counts


def listed(found: Estimates) -> dict[int, int]:
    return dict(zip(found.keys.tolist(), found.weights.tolist(), strict=True))


def estimates(sketch: CountMin, state: pa.Array, keys: Integers) -> Integers:
    return sketch.estimate(state.take(pa.array(np.zeros(len(keys), np.int64))), keys)


# Sketches


def test_the_papers_sketch_has_three_levels_and_256_exact_counts() -> None:
    assert (PAPER.levels, PAPER.exact_cells, PAPER.cells) == (3, 256, 3 * 2 * 256 + 256)
    (state,) = PAPER.lift(np.zeros(1, np.int64), 1, pa.array([7]))
    assert len(state[0].as_py()) == 16 + 8 * 1_792
    assert CountMin(key_bits=8).levels == 0


@shapes
@examples
@given(st.data())
def test_never_too_low_and_no_hitter_is_missing(sketch: CountMin, data: st.DataObject) -> None:
    rows = data.draw(rows_of(sketch))
    (state,) = sketch.combine(np.zeros(5, np.int64), 1, (lifted(rows, sketch),))
    truth = exact(rows)
    total = sum(truth.values())
    keys = np.array([*truth, 0, 2**sketch.key_bits - 1], np.int64)
    bounds = estimates(sketch, state, keys)
    assert all(truth[int(key)] <= bound <= total for key, bound in zip(keys, bounds, strict=True))
    found = sketch.hitters(state, 0.3)
    assert {key for key, weight in truth.items() if weight >= 0.3 * total} <= listed(found).keys()
    assert all(truth[key] <= weight <= total for key, weight in listed(found).items())
    assert list(listed(found).items()) == sorted(listed(found).items(), key=lambda pair: (-pair[1], pair[0]))
    largest = sketch.top(state, 3)
    assert listed(largest) == dict(list(listed(sketch.top(state, 4)).items())[:3])
    assert len(largest.keys) >= min(3, len(truth))


@shapes
@examples
@given(st.data())
def test_equal_bytes_in_any_order_and_grouping(sketch: CountMin, data: st.DataObject) -> None:
    rows, random = data.draw(rows_of(sketch)), Random(data.draw(st.integers(0, 99)))
    at_once = lifted([(0, key, weight) for _, key, weight in rows], sketch)[:1]
    states = lifted(random.sample(rows, len(rows)), sketch)
    slots = np.array([random.randrange(3) for _ in range(5)])
    (states,) = sketch.combine(slots, 3, (states,))
    assert sketch.combine(np.zeros(3, np.int64), 1, (states,))[0].equals(at_once)


def test_the_error_is_as_stated() -> None:
    keys = np.random.default_rng(3).integers(0, 2**32, 20_000)
    (state,) = PAPER.lift(np.zeros(20_000, np.int64), 1, pa.array(keys))
    excess = estimates(PAPER, state, keys[:1_000]) - 1
    assert (excess >= 0).all()
    assert excess.mean() <= 2 * 20_000 / 256
    assert (excess > 4 * 20_000 / 256).mean() <= 0.25


def test_heavy_hitters_among_many_keys() -> None:
    random = np.random.default_rng(4)
    heavy = random.integers(0, 2**32, 10)
    keys = np.concatenate([random.integers(0, 2**32, 50_000), np.repeat(heavy, 2_000)])
    for sketch in (PAPER, CountMin(4, 1_024)):
        (state,) = sketch.lift(np.zeros(len(keys), np.int64), 1, pa.array(keys))
        assert set(listed(sketch.hitters(state, 0.02))) >= set(heavy.tolist())
    assert set(listed(sketch.top(state, 10))) == set(heavy.tolist())  # the paper's is too narrow for that


def test_nothing() -> None:
    none = PAPER.lift(np.zeros(2, np.int64), 2, pa.array([None, 5], pa.int64()), pa.array([1, None], pa.int64()))
    assert none[0].to_pylist() == [b"", b""]
    assert PAPER.lift(np.zeros(2, np.int64), 1, pa.nulls(2))[0].to_pylist() == [b""]
    assert PAPER.combine(np.zeros(2, np.int64), 1, none)[0].to_pylist() == [b""]
    assert len(PAPER.combine(np.zeros(0, np.int64), 0, (pa.array([], STATE),))[0]) == 0
    assert PAPER.estimate(none[0], np.array([0, 5])).tolist() == [0, 0]
    assert listed(PAPER.hitters(none[0][:1], 0.5)) == listed(PAPER.top(none[0][:1], 2)) == {}
    (states,) = PAPER.lift(np.array([2, 0]), 3, pa.array([8, 9]))
    assert PAPER.estimate(states, np.array([9, 9, 8])).tolist() == [1, 0, 1]
    assert PAPER.combine(np.arange(3), 3, (states,))[0].equals(states)


def test_counts_stop_at_the_greatest_bigint() -> None:
    (states,) = PAPER.lift(np.array([0, 0, 1]), 2, pa.array([1, 1, 2]), pa.array([MAX_BIGINT, 9, 3]))
    (both,) = PAPER.combine(np.zeros(2, np.int64), 1, (states,))
    assert estimates(PAPER, both, np.array([1, 2])).tolist() == [MAX_BIGINT, 3]
    assert listed(PAPER.hitters(both, 1.0)) == {1: MAX_BIGINT}


# Refusals


def test_keys_and_questions_are_checked() -> None:
    for key in (-1, 2**32):
        with pytest.raises(DataError, match="counts keys") as refused:
            PAPER.lift(np.zeros(1, np.int64), 1, pa.array([key]))
        assert refused.value.code == "sketch-key"
    PAPER.lift(np.zeros(1, np.int64), 1, pa.array([-1]), pa.array([0]))  # it does not count
    (state,) = PAPER.lift(np.zeros(1, np.int64), 1, pa.array([1]))
    with pytest.raises(UsageError, match="not a share"):
        PAPER.hitters(state, 0.0)
    with pytest.raises(UsageError, match="can't be listed"):
        PAPER.top(state, 0)
    for sizes in ((0, 256), (2, 255), (2, 1), (17, 256), (2, 256, 63), (2, 256, 32, 0)):
        with pytest.raises(UsageError, match="there is no sketch"):
            CountMin(*sizes)


def test_a_search_that_finds_too_much_is_given_up() -> None:
    keys = np.random.default_rng(1).integers(0, 2**32, 20_000)
    (state,) = PAPER.lift(np.zeros(20_000, np.int64), 1, pa.array(keys))
    with pytest.raises(UsageError, match="too narrow") as refused:
        PAPER.hitters(state, 1e-5)
    assert refused.value.code == "sketch-width"


def test_other_sketches_are_refused() -> None:
    (state,) = PAPER.lift(np.array([1]), 2, pa.array([1]))
    for other in (CountMin(4, 128), CountMin(2, 256, 31), CountMin(2, 128)):
        with pytest.raises(DataError, match="state 1") as refused:
            other.combine(np.zeros(2, np.int64), 1, (state,))
        assert refused.value.code == "sketch-state"


# Both levels


def tuples(seed: int, group_count: int, keys_of_group: int, rows: int) -> tuple[Integers, Integers, Integers]:
    """Keys, weights, some of them 0, and groups: later groups have fewer keys."""
    random = np.random.default_rng(seed)
    groups = random.integers(0, group_count, rows)
    keys = random.integers(0, 2**63, rows) % (1 + keys_of_group // (1 + groups)) * 2_654_435_761 % 2**32
    return keys, random.integers(0, 1_500, rows), groups


def run(low: str, high: str, rows: tuple[Integers, Integers, Integers], group_count: int) -> Held:
    return HIGH[high].run(LOW[low].run(*rows, group_count), group_count)


@pytest.mark.parametrize("seed", range(3))
def test_every_way_up_gives_the_same_sketches(seed: int) -> None:
    rows = tuples(seed, 12, [5, 300, 3_000][seed], 30_000)
    expected = run("low sketch", "low sketch", rows, 12)
    for low in ("buffer", "hash", "compress"):
        direct, adaptive = run(low, "direct", rows, 12), run(low, "adaptive", rows, 12)
        assert (direct.cells == expected.cells).all()
        for held in (direct, adaptive):
            assert (held.totals == expected.totals).all()
        for group in range(12):
            counted = exact([(0, int(key), int(weight)) for key, weight, of in zip(*rows, strict=True) if of == group])
            sketch = adaptive.sketches[group]
            assert (sketch >= 0) == (len(counted) > 64)
            if sketch >= 0:
                assert (adaptive.cells[sketch] == expected.cells[group]).all()
                assert listed(adaptive.top(group, 5)) == listed(expected.top(group, 5))
            else:
                assert listed(adaptive.top(group, 64)) == dict(counted)
            found = listed(adaptive.hitters(group, 0.05))
            assert {key for key, weight in counted.items() if weight >= 0.05 * counted.total()} <= found.keys()


def test_the_threshold_is_the_longest_list() -> None:
    for distinct, held_exactly in ((64, True), (65, False)):
        keys = np.arange(distinct).repeat(2)
        shipped = LOW["buffer"].run(keys, np.ones_like(keys), np.zeros_like(keys), 2)
        held = Adaptive().run(shipped, 2)
        assert (len(held.cells) == 0) == held_exactly
        assert held.nbytes == (64 * 16 if held_exactly else 8 * PAPER.cells)
        assert listed(held.hitters(1, 0.5)) == {}


def test_a_buffer_is_flushed_when_full_and_a_table_with_its_gaps() -> None:
    keys = np.array([5] * 130)
    groups, ones = np.zeros(130, np.int64), np.ones(130, np.int64)
    shipped: dict[str, Any] = {low: LOW[low].run(keys, ones, groups, 3) for low in LOW}
    assert [shipped[low].nbytes for low in LOW] == [130 * 16, 128 * 16, 16, 3 * 8 * PAPER.cells]
    assert (shipped["buffer"].ends.tolist(), shipped["buffer"].groups.tolist()) == ([128, 130], [0, 0])
    assert (shipped["compress"].keys.tolist(), shipped["compress"].weights.tolist()) == ([5], [130])
    assert (shipped["hash"].keys != -1).sum() == 1
    assert shipped["buffer"].low_nbytes == shipped["hash"].low_nbytes == 3 * 128 * 16


def test_a_table_is_flushed_when_a_key_finds_no_place() -> None:
    keys = np.arange(10_000)
    shipped = LOW["hash"].run(keys, np.ones_like(keys), np.zeros_like(keys), 1)
    assert isinstance(shipped, Pairs)
    assert len(shipped.keys) == 128 * len(shipped.ends)
    assert sorted(shipped.keys[shipped.keys >= 0].tolist()) == keys.tolist()


def test_no_tuples_and_wrong_ones() -> None:
    none = np.zeros(0, np.int64)
    for low in LOW:
        for high in HIGH:
            if (low == "low sketch") == (high == "low sketch"):
                held = run(low, high, (none, none, none), 2)
                assert listed(held.top(1, 3)) == listed(held.hitters(0, 0.1)) == {}
            else:
                with pytest.raises(UsageError, match="low level"):
                    run(low, high, (none, none, none), 2)
    one = np.ones(1, np.int64)
    for key in (-1, 2**32):
        for low, high in (("buffer", "direct"), ("hash", "adaptive"), ("low sketch", "low sketch")):
            with pytest.raises(HeadraceError, match="key") as refused:
                run(low, high, (one * key, one, one), 2)
            assert refused.value.code == "sketch-key"
    with pytest.raises(UsageError, match="its own shape"):
        HIGH["low sketch"].run(LowSketch(CountMin(3)).run(one, one, one, 2), 2)


# Any bytes


def use(sketch: CountMin, states: list[bytes]) -> None:
    """All that can be made of states is in order."""
    (combined,) = sketch.combine(np.zeros(len(states), np.int64), 1, (pa.array(states, STATE),))
    assert (estimates(sketch, combined, np.array([0, 1, 30])) >= 0).all()
    try:
        found = sketch.hitters(combined, 0.001)
    except UsageError as problem:
        if problem.code != "sketch-width":
            raise
    else:
        assert (found.weights > 0).all()
        assert len(sketch.top(combined, 3).keys) <= 3


def forged(sketch: CountMin, random: Random) -> bytes:
    """Rows that add up to one total, but of no keys."""
    cells = np.zeros(sketch.cells, np.int64)
    rows = sketch.levels * sketch.depth
    for row in range(rows + 1):
        begin = row * sketch.width
        size = sketch.width if row < rows else sketch.exact_cells
        cells[begin : begin + size] = 1_000 // size
        cells[begin + random.randrange(size)] += 1_000 - cells[begin : begin + size].sum()
    return bytes(sketch.packed(cells[None, :], np.array([1_000]))[0].as_py())


def survive() -> None:
    random, sketches = Random(5), [CountMin(1, 2, 5, 1), CountMin(2, 4, 62, 8), CountMin(3, 16, 20, 6)]
    pools: list[list[bytes]] = []
    for sketch in sketches:
        keys = pa.array([random.randrange(32) for _ in range(200)])
        pools.append(sketch.lift(np.arange(200) % 5, 5, keys)[0].to_pylist())
    attack(pools, lambda kind, state: use(sketches[kind], [pools[kind][0], state]))
    for place in range(60):
        use(sketches[place % 3], [forged(sketches[place % 3], random)])


@needs_limit
def test_mutated_states_give_state_errors_or_answers() -> None:
    check_survived(__name__)
