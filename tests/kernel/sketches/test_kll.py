"""KLL sketches: their error after many merges, exactness while they are small, and what others read in their bytes."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernel.sketches import kll
from headrace.kernel.sketches.kll import ERROR, Kll
from headrace.kernel.sketches.packed_bytes import STATE
from headrace.model.errors import DataError
from tests.kernel.sketches.mutations import attack, changed, check_refused, check_survived, needs_limit
from tests.kernel.sketches.quantile_cases import (
    FRACTIONS,
    INPUTS,
    KLL,
    NAN,
    PARTS,
    ROWS,
    TREES,
    present,
    rank_error,
    ranks_of,
    values,
)

# Errors


@pytest.mark.parametrize("name", INPUTS)
def test_lifted_at_once(name: str) -> None:
    assert rank_error(INPUTS[name], KLL.answers(KLL.lifted(INPUTS[name]))) <= ERROR


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("name", INPUTS)
def test_a_thousand_merges_keep_the_error(name: str, tree: str) -> None:
    states = TREES[tree](KLL, KLL.lifted(INPUTS[name], PARTS))
    assert kll.counts(states).tolist() == [ROWS]
    assert rank_error(INPUTS[name], KLL.answers(states)) <= ERROR
    assert len(states[0].as_py()) < 10_500


def test_coins_are_fair() -> None:
    """Errors of many sketches of one distribution cancel out: 40 times 5 errors of about 0.15% each."""
    fractions, errors = np.array([0.1, 0.3, 0.5, 0.7, 0.9]), []
    for seed in range(40):
        data = np.random.default_rng(seed).integers(0, 1 << 20, 50_000).astype(np.float64)
        answers = kll.quantiles(KLL.balanced(KLL.lifted(data, 64)), fractions)[0]
        errors.append(np.searchsorted(np.sort(data), answers) / 50_000 - fractions)
    assert np.abs(np.mean(errors)) < 0.0006
    assert 0.0003 < np.sqrt(np.mean(np.square(errors))) < 0.0027


# Small states


@settings(max_examples=60)
@given(data=st.data(), plain=st.lists(values, max_size=60))
def test_small_states_are_exact(data: st.DataObject, plain: list[float | None]) -> None:
    """And the same bytes, whatever the order and grouping."""
    whole, kept = KLL.drawn_tree(plain, data), present(plain)
    assert whole == KLL.state_of(*plain) == KLL.state_of(*reversed(plain))
    assert kll.counts(whole).tolist() == [len(kept)]
    if len(kept):
        assert repr(KLL.answers(whole).tolist()) == repr(kept[ranks_of(len(kept)) - 1].tolist())
    else:
        assert whole.to_pylist() == [b""]


@pytest.mark.parametrize("count", [399, 400, 401, 511, 512, 513, 1023, 1024, 1025])
def test_up_to_k_values_are_exact(count: int) -> None:
    data = np.random.default_rng(count).permutation(count).astype(np.float64)
    for states in (KLL.state_of(*data), KLL.into_one(KLL.lifted(data, 3))):
        assert np.abs(KLL.answers(states) - ranks_of(count) + 1).max() <= (0 if count <= 400 else 3)


def test_k_has_a_range() -> None:
    for k in (7, 1 << 16):
        with pytest.raises(ValueError, match="k is from 8 to 65535"):
            Kll(k)
    rough, (fine,) = Kll(8), Kll(65_535).lift(np.zeros(ROWS, np.int64), 1, pa.array(INPUTS["random"]))
    (states,) = rough.lift(np.zeros(ROWS, np.int64), 1, pa.array(INPUTS["random"]))
    assert len(states[0].as_py()) < 1_000 < len(fine[0].as_py())
    assert rank_error(INPUTS["random"], KLL.answers(states)) < 0.4
    assert rank_error(INPUTS["random"], KLL.answers(fine)) < 0.0002


# Bytes of others, and for others


def test_others_read_our_bytes() -> None:
    datasketches = pytest.importorskip("datasketches")
    for count in (1, 2, 50, 400, 401, 5_000, ROWS):
        data = INPUTS["random"][:count]
        states = KLL.lifted(data)
        theirs = datasketches.kll_doubles_sketch.deserialize(states[0].as_py())
        assert (theirs.n, theirs.k) == (count, Kll().k)
        assert (theirs.get_min_value(), theirs.get_max_value()) == (data.min(), data.max())
        assert theirs.get_quantiles(FRACTIONS[1:-1], True) == kll.quantiles(states, FRACTIONS[1:-1])[0].tolist()
        theirs.merge(datasketches.kll_doubles_sketch.deserialize(states[0].as_py()))
        assert kll.counts(pa.array([theirs.serialize()], STATE)).tolist() == [2 * count]


def test_we_read_their_bytes() -> None:
    datasketches = pytest.importorskip("datasketches")
    sketches = []
    for count, k in ((0, 200), (1, 200), (3, 200), (200, 200), (5_000, 200), (100_000, 800)):
        sketch = datasketches.kll_doubles_sketch(k)
        sketch.update(INPUTS["random"][:count])
        sketches.append((sketch, count))
    states = pa.array([sketch.serialize() for sketch, _ in sketches], STATE)
    assert kll.counts(states).tolist() == [count for _, count in sketches]
    answers = kll.quantiles(states, FRACTIONS[1:-1])
    for (sketch, count), row in zip(sketches, answers, strict=True):
        assert not count or sketch.get_quantiles(FRACTIONS[1:-1], True) == row.tolist()
    combined = KLL.into_one(states)
    back = datasketches.kll_doubles_sketch.deserialize(combined[0].as_py())
    data = np.concatenate([INPUTS["random"][:count] for _, count in sketches])
    assert back.n == len(data)
    assert rank_error(data, KLL.answers(combined)) <= 0.02
    assert combined[0].as_py()[16:18] == struct.pack("<H", 200), "the least k tells the error"


def test_nans_follow_the_sketch() -> None:
    assert KLL.bytes_of(1.0, 2.0, NAN) == KLL.bytes_of(1.0, 2.0) + struct.pack("<q", 1)
    assert KLL.bytes_of(NAN, NAN)[8:] == struct.pack("<q", 2)
    assert KLL.bytes_of(4.0, NAN)[8:] == struct.pack("<dq", 4.0, 1)


# Bytes that are no states


def damaged() -> dict[str, bytes]:
    good, small = KLL.bytes_of(*range(1_000)), KLL.bytes_of(1.0, 2.0, 3.0)
    return {
        "one byte": b"\x05",
        "no items": good[:20],
        "a byte less": good[:-1],
        "a byte more": good + b"\0",
        "no NaNs that follow": good + bytes(8),
        "version": changed(good, 1, b"\x09"),
        "family": changed(good, 2, b"\x07"),
        "flags": changed(good, 3, b"\xff"),
        "k": changed(good, 4, b"\0\0"),
        "least k": changed(good, 16, b"\0\0"),
        "count": changed(good, 8, struct.pack("<q", 1_001)),
        "levels": changed(good, 18, b"\xff"),
        "first level": changed(good, 20, struct.pack("<I", 1 << 31)),
        "second level": changed(good, 24, struct.pack("<I", 0)),
        "minimum": changed(small, 24, struct.pack("<d", 2.5)),
        "maximum": changed(small, 32, struct.pack("<d", NAN)),
        "order": changed(small, 40, struct.pack("<dd", 2.0, 1.0)),
        "NaN": changed(small, 48, struct.pack("<d", NAN)),
        "a single NaN": changed(KLL.bytes_of(1.0), 8, struct.pack("<d", NAN)),
    }


@pytest.mark.parametrize("what", damaged())
def test_other_bytes_are_refused(what: str) -> None:
    check_refused("KLL sketch", [b"", damaged()[what]], kll.parse, kll.counts, KLL.into_one, KLL.answers)


def test_counts_do_not_overflow() -> None:
    huge = b"\x02\x01\x0f\x01\x90\x01\x08\x00" + struct.pack("<q", 1 << 53)
    assert kll.counts(pa.array([huge], STATE)).tolist() == [1 << 53]
    with pytest.raises(DataError, match="state 1"):
        KLL.into_one(pa.array([huge, huge], STATE))


def survive() -> None:
    sizes = (1, 2, 60, 1_000, 30_000)
    pool = [KLL.bytes_of(*INPUTS["random"][:size], *([NAN] * (size % 2))) for size in sizes]

    @np.errstate(invalid="ignore")  # bytes may be those of a signalling NaN
    def use(_kind: int, state: bytes) -> None:
        answers, _ = KLL.used(state, pool[2])
        assert (answers[1:] >= answers[:-1]).all()

    attack([pool], use)


@needs_limit
def test_mutated_states_give_errors_or_answers() -> None:
    check_survived(__name__)
