"""Look-ups by key against a plain dictionary."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.expressions.static_tables import DuplicateKeyError, KeyValues, Lookup
from headrace.kernel.level1.join import StringValues

KEYS = st.tuples(st.one_of(st.none(), st.integers(-3, 3)), st.one_of(st.none(), st.sampled_from(["", "a", "ü"])))


def partners(keys: list[pa.Array], table_keys: list[pa.Array], kind: type[KeyValues] = KeyValues) -> list[int]:
    known = [kind([column], key.type) for key, column in zip(keys, table_keys, strict=True)]
    numbers = [each.numbers_of_known(column) for each, column in zip(known, table_keys, strict=True)]
    lookup = Lookup(numbers, [len(each.known) for each in known])
    found = lookup.partners([each.numbers(key) for each, key in zip(known, keys, strict=True)])
    return [int(place) for place in found]


@pytest.mark.parametrize("kind", [KeyValues, StringValues])
@given(st.lists(KEYS), st.lists(KEYS, unique=True))
def test_each_row_finds_the_row_with_its_keys(
    kind: type[KeyValues], rows: list[tuple[int, str]], table: list[tuple[int, str]]
) -> None:
    expected = {key: place for place, key in enumerate(table) if None not in key}
    whole = [pa.array([row[0] for row in rows], pa.int64()), pa.array([row[1] for row in rows], pa.string())]
    known = [pa.array([key[0] for key in table], pa.int64()), pa.array([key[1] for key in table], pa.string())]
    assert partners(whole, known, kind) == [expected.get(row, -1) for row in rows]


def test_whole_numbers_and_decimals_meet() -> None:
    rows = pa.array([1, 2, -9_223_372_036_854_775_808], pa.int64())
    table = pa.array([Decimal("2.00"), Decimal("1.50"), Decimal("-9223372036854775808.00")], pa.decimal128(38, 2))
    assert partners([rows], [table]) == [-1, 0, 2]


def test_nan_and_both_zeros_are_keys() -> None:
    nan = float("nan")
    rows, table = pa.array([nan, -0.0, 0.0, 1.0]), pa.array([0.0, nan])
    assert partners([rows], [table]) == [1, 0, 0, -1]


def test_two_rows_with_one_key_are_refused() -> None:
    with pytest.raises(DuplicateKeyError) as refused:
        partners([pa.array(["a"])], [pa.array(["b", "a", None, None, "a"])])
    assert refused.value.rows == (1, 4)
