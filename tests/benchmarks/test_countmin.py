"""Count-min sketches: never too low, and the strategies of both levels."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
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
    HighSketch,
    LowSketch,
    Pairs,
)
from headrace.model.errors import HeadraceError, UsageError
from headrace.model.types import MAX_BIGINT

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


def hold(rows: list[Row], sketch: CountMin) -> Held:
    """Count all rows in one group."""
    known = [(key, weight) for _, key, weight in rows if key is not None]
    keys, weights = (np.array(column, np.int64) for column in (zip(*known, strict=True) if known else ((), ())))
    shipped = LowSketch(sketch).run(keys, weights, np.zeros(len(keys), np.int64), 1)
    return HighSketch(sketch).run(shipped, 1)


def exact(rows: list[Row]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for _, key, weight in rows:
        if key is not None and weight > 0:
            counts[key] += weight
    return counts


def listed(found: Estimates) -> dict[int, int]:
    return dict(zip(found.keys.tolist(), found.weights.tolist(), strict=True))


# Sketches


def test_the_papers_sketch_has_three_levels_and_256_exact_counts() -> None:
    assert (PAPER.levels, PAPER.exact_cells, PAPER.cells) == (3, 256, 3 * 2 * 256 + 256)
    assert CountMin(key_bits=8).levels == 0


@shapes
@examples
@given(st.data())
def test_never_too_low_and_no_hitter_is_missing(sketch: CountMin, data: st.DataObject) -> None:
    rows = data.draw(rows_of(sketch))
    held, truth = hold(rows, sketch), exact(rows)
    total = sum(truth.values())
    found = listed(held.above(0, max(1, total // 3)))
    assert {key for key, weight in truth.items() if weight > total / 3} <= found.keys()
    assert all(truth[key] <= weight <= total for key, weight in found.items())
    assert list(found.items()) == sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    largest = held.top(0, 3)
    assert listed(largest) == dict(list(listed(held.top(0, 4)).items())[:3])
    assert len(largest.keys) >= min(3, len(truth))


def test_heavy_hitters_among_many_keys() -> None:
    random = np.random.default_rng(4)
    heavy = random.integers(0, 2**32, 10)
    keys = np.concatenate([random.integers(0, 2**32, 50_000), np.repeat(heavy, 2_000)])
    for sketch in (PAPER, CountMin(4, 1_024)):
        held = hold([(0, key, 1) for key in keys.tolist()], sketch)
        assert set(listed(held.above(0, 1_400))) >= set(heavy.tolist())
    assert set(listed(held.top(0, 10))) == set(heavy.tolist())  # the paper's is too narrow for that


def test_counts_stop_at_the_greatest_bigint() -> None:
    held = hold([(0, 1, MAX_BIGINT), (0, 1, 9), (0, 2, 3)], PAPER)
    assert listed(held.top(0, 2)) == {1: MAX_BIGINT, 2: 3}


def test_sizes_and_questions_are_checked() -> None:
    with pytest.raises(UsageError, match="can't be listed"):
        hold([(0, 1, 1)], PAPER).top(0, 0)
    for sizes in ((0, 256), (2, 255), (2, 1), (17, 256), (2, 256, 63), (2, 256, 32, 0)):
        with pytest.raises(UsageError, match="there is no sketch"):
            CountMin(*sizes)


def test_a_search_that_finds_too_much_is_given_up() -> None:
    keys = np.random.default_rng(1).integers(0, 2**32, 20_000)
    held = hold([(0, key, 1) for key in keys.tolist()], PAPER)
    with pytest.raises(UsageError, match="too narrow") as refused:
        held.above(0, 1)
    assert refused.value.code == "sketch-width"


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
            least = 1 + counted.total() // 20
            found = listed(adaptive.above(group, least))
            assert {key for key, weight in counted.items() if weight >= least} <= found.keys()


def test_the_threshold_is_the_longest_list() -> None:
    for distinct, held_exactly in ((64, True), (65, False)):
        keys = np.arange(distinct).repeat(2)
        shipped = LOW["buffer"].run(keys, np.ones_like(keys), np.zeros_like(keys), 2)
        held = Adaptive().run(shipped, 2)
        assert (len(held.cells) == 0) == held_exactly
        assert held.nbytes == (64 * 16 if held_exactly else 8 * PAPER.cells)
        assert listed(held.above(1, 1)) == {}


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
                assert listed(held.top(1, 3)) == listed(held.above(0, 1)) == {}
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
