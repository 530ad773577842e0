"""HLL sketches: DataSketches' hashes and bytes, unions byte for byte, estimates within the bound, foreign bytes."""

from __future__ import annotations

import hashlib
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.kernel.sketches.hll import Hll, coupons_of
from headrace.kernel.states.columns import Columns, Slots
from headrace.model.types import BIGINT
from tests.kernel.sketches.mutations import attack, changed, check_refused, check_survived, needs_limit

UTC = pa.timestamp("us", tz="UTC")
NAN = math.nan
SKETCH = Hll()


def sketch_of(values: pa.Array, sketch: Hll = SKETCH) -> bytes:
    (states,) = sketch.lift(np.zeros(len(values), np.int64), 1, values)
    return bytes(states[0].as_py())


def union_of(states: list[bytes], sketch: Hll = SKETCH) -> bytes:
    (found,) = sketch.combine(np.zeros(len(states), np.int64), 1, (as_states(states),))
    return bytes(found[0].as_py())


def estimate_of(state: bytes, sketch: Hll = SKETCH) -> float:
    return float(sketch.estimates(as_states([state]))[0])


def as_states(states: list[bytes]) -> pa.Array:
    return pa.array(states, pa.large_binary())


def whole(count: int, first: int = 0) -> pa.Array:
    return pa.array(np.arange(first, first + count))


# Hashes and bytes, as the package datasketches 5.2 has them


@pytest.mark.parametrize(
    ("value", "coupon"),
    [
        (0, "cbd7c204"),
        (1, "2bf2fb06"),
        (-1, "d964e70b"),
        (2**63 - 1, "ffbab40d"),
        (-(2**63), "7519c20c"),
        (0.0, "cbd7c204"),
        (-0.0, "cbd7c204"),
        (NAN, "eb31bd18"),
        (-NAN, "eb31bd18"),
        (1.5, "22822a14"),
        (math.inf, "289edb04"),
        (5e-324, "2bf2fb06"),
        ("a", "2f823b04"),
        ("\u00e9", "8cfde005"),
        ("0123456789abcdef", "20942809"),
        ("0123456789abcdefg", "ab73d407"),
        ("hello world, a longer string", "14281604"),
    ],
)
def test_values_are_hashed_as_in_datasketches(value: Any, coupon: str) -> None:
    assert sketch_of(pa.array([value])).hex() == "0201070c03080108" + coupon


def test_strings_of_every_length_are_hashed_as_in_datasketches() -> None:
    coupons = coupons_of(pa.array([("abcdefghij" * 4)[:length] for length in range(1, 41)]))
    expected = "31783cce4f89e5a83d7b67d3cca9a2469d7261cf0d8871dbea421b4924189b4c"
    assert hashlib.sha256(coupons.astype("<u4").tobytes()).hexdigest() == expected


def test_other_types_are_hashed_as_longs_or_bytes() -> None:
    longs = coupons_of(pa.array([0, 1, -5, 2**62])).tolist()
    assert coupons_of(pa.array([False, True])).tolist() == longs[:2]
    assert coupons_of(pa.array([0, 1, -5, 2**62]).cast(UTC)).tolist() == longs
    for precision in (9, 38):
        decimals = pa.array([Decimal("0.00"), Decimal("0.01"), Decimal("-0.05")], pa.decimal128(precision, 2))
        assert coupons_of(decimals).tolist() == longs[:3]
    text = b"0123456789abcdeA"
    of_text = coupons_of(pa.array([text.decode()])).tolist()
    assert coupons_of(pa.array([text], pa.binary(16))).tolist() == of_text
    assert coupons_of(pa.array([Decimal(int.from_bytes(text, "little"))], pa.decimal128(38, 0))).tolist() == of_text


def test_an_empty_string_counts() -> None:
    assert SKETCH.estimates(as_states([sketch_of(pa.array(["", None, "", "a"]))])).tolist() == pytest.approx([2.0])


@pytest.mark.parametrize(
    ("values", "sums", "registers"),
    [
        (
            whole(1_000),
            "00000080965eab400000000000000000920c000000000000",
            "b0c4eb8217d77913dee1842c1a6c3aa4d3a4defb5a903486e8cfa2d8e380a38e",
        ),
        (
            pa.array(np.arange(1_000) / 8),
            "000000c07b3bab400000000000000000890c000000000000",
            "8789550c71041c90a00039f45f1869069e37a0fb1f2c9bc3d798fe73ce1a3ba3",
        ),
        (
            pa.array([f"host-{number}.example" for number in range(1_000)]),
            "000000a00d44ab400000000000000000880c000000000000",
            "7ff9d4530f8ae85adda99ea6cf0126aff230cec4d0136096a624cb9ce89ffac3",
        ),
    ],
    ids=["BIGINT", "DOUBLE", "STRING"],
)
def test_registers_are_those_of_datasketches(values: pa.Array, sums: str, registers: str) -> None:
    state = sketch_of(values)
    assert state[:16].hex() == "0a01070c0018000a" + "00" * 8
    assert state[16:40].hex() == sums
    assert hashlib.sha256(state[40:]).hexdigest() == registers


SET_8 = (
    "0301070805000009090000000000000081bc5d0600000000000000000000000000000000862ff90d00000000000000000000000000000000"
    "cbd7c20400000000000000000000000000000000c1e9170500000000d216730700000000000000007581660700000000000000000000"
    "000000000000fc2d420a7b65e6082bf2fb06000000000000000000000000"
)
SUMS_4 = "75f0a29734e85540000000000400fc3f0000000000000000"
FOREIGN = [
    (8, 0, 9, SET_8),
    (8, 0, 9, "03010708050800090900000081bc5d06862ff90dcbd7c204c1e91705d216730775816607fc2d420a7b65e6082bf2fb06"),
    (4, 24_300, 100, f"0a01070402080102{SUMS_4}0100000001000000162372103741f5440d000048"),
    (4, 24_300, 100, f"0a01070402000102{SUMS_4}0100000001000000162372103741f544000000000d0000480000000000000000"),
    (4, 24_300, 100, f"0a01070400080006{SUMS_4}000000000000000087400c03120808211486541400"),
    (4, 24_300, 100, f"0a0107040000000a{SUMS_4}000000000000000007020403030801020804020506120505"),
    (12, 0, 0, "0201070c030c0008"),
    (12, 0, 0, "0201070c03040008" + "00" * 32),
]
forms = ["SET", "compact SET", "compact HLL_4", "HLL_4", "HLL_6", "HLL_8", "nothing, compact", "nothing"]


@pytest.mark.parametrize(("lg_k", "first", "count", "foreign"), FOREIGN, ids=forms)
def test_all_forms_of_datasketches_are_read(lg_k: int, first: int, count: int, foreign: str) -> None:
    sketch, state = Hll(lg_k), bytes.fromhex(foreign)
    ours = sketch_of(whole(count, first), sketch)
    assert union_of([state], sketch) == union_of([state, ours], sketch) == ours
    assert estimate_of(state, sketch) == estimate_of(ours, sketch)


@pytest.mark.parametrize("lg_k", [4, 7, 8, 12, 14])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 24, 25, 300, 2_000])
def test_datasketches_reads_ours_and_we_read_theirs(lg_k: int, count: int) -> None:
    package = pytest.importorskip("datasketches")
    sketch, types = Hll(lg_k), package.tgt_hll_type
    ours = sketch_of(whole(count), sketch)
    theirs = package.hll_sketch(lg_k, types.HLL_8)
    for number in range(count):
        theirs.update(number)
    for target in (types.HLL_4, types.HLL_6, types.HLL_8):
        union = package.hll_union(lg_k)
        union.update(theirs)
        if ours:
            union.update(package.hll_sketch.deserialize(ours))
        both = union.get_result(target)
        for state in (both.serialize_compact(), both.serialize_updatable()):
            assert union_of([state], sketch) == ours
        assert both.get_estimate() == pytest.approx(estimate_of(ours, sketch), rel=sketch.relative_error / 6)


# Unions


PARTS = st.lists(st.tuples(st.integers(0, 60), st.sampled_from([0, 1, 3, 7, 8, 20, 25, 80])), max_size=6)


@settings(max_examples=60, deadline=None)
@given(parts=PARTS, lg_k=st.sampled_from([4, 7, 8, 9]), data=st.data())
def test_a_union_is_the_sketch_of_the_union(parts: list[tuple[int, int]], lg_k: int, data: st.DataObject) -> None:
    """Byte for byte, whatever the order and the grouping."""
    sketch = Hll(lg_k)
    arrays = [whole(count, first) for first, count in parts]
    rows = pa.concat_arrays([whole(0), *arrays])
    of_rows = np.repeat(np.arange(len(parts)), [count for _, count in parts]).astype(np.int64)
    middle, last = drawn_slots(data, len(parts), 4), drawn_slots(data, 4, 2)
    order = np.array(data.draw(st.permutations(range(len(parts)))), np.int64)
    (expected,) = sketch.lift(last[middle][of_rows], 2, rows)
    states = sketch.lift(of_rows, len(parts), rows)
    (at_once,) = sketch.combine(last[middle][order], 2, (states[0].take(pa.array(order)),))
    (in_steps,) = sketch.combine(last, 2, sketch.combine(middle, 4, states))
    assert expected.to_pylist() == at_once.to_pylist() == in_steps.to_pylist()


def drawn_slots(data: st.DataObject, length: int, count: int) -> Slots:
    return np.array(data.draw(st.lists(st.integers(0, count - 1), min_size=length, max_size=length)), np.int64)


def test_what_is_kept_depends_on_the_number_of_coupons() -> None:
    sizes = [len(sketch_of(whole(count))) for count in (0, 1, 7, 8, 384, 385, 100_000)]
    assert sizes == [0, 12, 36, 44, 12 + 4 * 384, 40 + 4096, 40 + 4096]
    assert [len(sketch_of(whole(count), Hll(7))) for count in (7, 8)] == [36, 40 + 128]


def test_many_slots_are_as_one_by_one() -> None:
    rng = np.random.default_rng(3)
    slots, values = (300 * rng.random(60_000) ** 3).astype(np.int64), rng.integers(0, 5_000, 60_000)
    (states,) = SKETCH.lift(slots, 301, pa.array(values))
    assert states.to_pylist() == [sketch_of(pa.array(values[slots == slot])) for slot in range(301)]
    assert {len(state) for state in states.to_pylist()} >= {0, 40 + 4096}


def test_a_dense_sketch_of_nothing_is_neutral() -> None:
    nothing = bytes.fromhex("0a0107040008000a") + bytes(32 + 16)
    few = sketch_of(whole(3), Hll(4))
    assert union_of([nothing], Hll(4)) == b""
    assert union_of([few, nothing], Hll(4)) == few
    assert estimate_of(nothing, Hll(4)) == 0.0


def test_nulls_and_nothing() -> None:
    slots = np.array([0, 1, 1], np.int64)
    for nulls in (pa.nulls(3), pa.nulls(3, pa.int64()), pa.nulls(3, pa.string()), pa.nulls(3, pa.binary(16))):
        (states,) = SKETCH.lift(slots, 2, nulls)
        assert states.to_pylist() == [b"", b""]
        assert SKETCH.estimates(states).tolist() == [0.0, 0.0]
    half = pa.array([3, None, 4, 4])[1:]
    assert SKETCH.lift(slots, 2, half)[0].to_pylist() == [b"", sketch_of(pa.array([4]))]
    none = np.zeros(0, np.int64)
    assert SKETCH.combine(none, 2, (as_states([]),))[0].to_pylist() == [b"", b""]
    assert SKETCH.combine(none, 0, SKETCH.lift(none, 0, pa.array([], pa.string())))[0].to_pylist() == []
    assert SKETCH.columns(BIGINT) == (pa.large_binary(),)


def test_slices_and_nulls_of_states() -> None:
    states = pa.array([b"x", sketch_of(whole(2)), None, sketch_of(whole(500))], pa.large_binary())[1:]
    assert SKETCH.estimates(states) == pytest.approx([2, 0, 500], rel=0.05)


# Estimates


@pytest.mark.parametrize("count", [0, 1, 5, 50, 384, 385, 1_000, 4_096, 10_000, 20_000, 100_000, 1_000_000, 10_000_000])
def test_estimates_are_within_the_bound(count: int) -> None:
    assert SKETCH.relative_error == pytest.approx(0.05, abs=0.002)
    error = abs(estimate_of(sketch_of(whole(count))) - count)
    assert error <= (1e-6 if count <= SKETCH.max_coupons else SKETCH.relative_error) * count


@pytest.mark.parametrize(("lg_k", "count"), [(12, 500), (12, 4_000), (12, 12_000), (12, 40_000), (8, 2_000), (4, 200)])
def test_errors_spread_as_stated_and_have_no_bias(lg_k: int, count: int) -> None:
    sketch, slots = Hll(lg_k), 200
    (states,) = sketch.lift(np.repeat(np.arange(slots), count), slots, whole(slots * count, 10**12))
    errors = sketch.estimates(states) / count - 1
    stated = sketch.relative_error / 3
    assert math.sqrt(np.mean(errors**2)) <= 1.15 * stated
    assert abs(np.mean(errors)) <= 4 * stated / math.sqrt(slots)


def test_an_estimate_does_not_depend_on_how_it_came_about() -> None:
    parts = [sketch_of(whole(3_000, 1_000 * part)) for part in range(20)]
    assert estimate_of(union_of(parts)) == estimate_of(sketch_of(whole(22_000)))


@pytest.mark.parametrize("lg_k", [3, 22])
def test_the_size_has_limits(lg_k: int) -> None:
    with pytest.raises(ValueError, match="from 4 to 21"):
        Hll(lg_k)


# Foreign bytes


FEW, SOME, MANY = (sketch_of(whole(count)) for count in (3, 100, 1_000))
EXCEPTIONAL = bytes.fromhex(FOREIGN[2][3])


@pytest.mark.parametrize(
    ("lg_k", "state"),
    [
        (12, b"x"),
        (12, FEW[:-1]),
        (12, FEW[:-4]),
        (12, FEW + b"\0\0\0\0"),
        (12, SOME[:-4]),
        (12, SOME[:10]),
        (12, MANY[:-1]),
        (12, MANY[:39]),
        (12, MANY + b"\0"),
        (11, FEW),
        (12, changed(FEW, 0, bytes([3]))),
        (12, changed(FEW, 1, bytes([2]))),
        (12, changed(FEW, 2, bytes([6]))),
        (12, changed(FEW, 7, bytes([11]))),
        (12, changed(FEW, 7, bytes([12]))),
        (12, changed(FEW, 11, bytes([0]))),
        (12, changed(FEW, 5, bytes([0]))),
        (12, changed(SOME, 8, bytes([99]))),
        (12, changed(MANY, 50, bytes([64]))),
        (4, changed(EXCEPTIONAL, 6, bytes([60]))),
        (4, changed(EXCEPTIONAL, 36, bytes([0]))),
        (4, changed(EXCEPTIONAL, 48, bytes([12]))),
        (4, changed(EXCEPTIONAL, 48, bytes([16]))),
        (4, changed(EXCEPTIONAL, 51, bytes([8]))),
        (4, EXCEPTIONAL[:48] + b"\x17\0\0\xfc"),
    ],
)
def test_bytes_of_no_sketch_are_refused(lg_k: int, state: bytes) -> None:
    def combined(states: pa.Array) -> Columns:
        return Hll(lg_k).combine(np.zeros(2, np.int64), 1, (states,))

    check_refused("HLL sketch", [b"", state], combined, Hll(lg_k).estimates)


def survive() -> None:
    sizes = (4, 8, 12)
    pools = [[sketch_of(whole(count), Hll(lg_k)) for count in (3, 20, 2_000)] for lg_k in sizes]
    for lg_k, _, _, text in FOREIGN:
        pools[sizes.index(lg_k)].append(bytes.fromhex(text))

    def use(kind: int, state: bytes) -> None:
        sketch = Hll(sizes[kind])
        united = union_of([state, state], sketch)
        estimates = {estimate_of(each, sketch) for each in (state, united)}
        assert len(estimates) == 1
        assert 0.0 <= estimates.pop() <= 1e24
        assert union_of([united], sketch) == united

    attack(pools, use)


@needs_limit
def test_mutated_states_are_refused_or_read() -> None:
    check_survived(__name__)
