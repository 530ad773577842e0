"""Types: which go together, and as what."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.types import (
    ADDRESS,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    MAX_DECIMAL_DIGITS,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE_NAMES,
    DataType,
    as_decimal,
    common_type,
    decimal,
)

decimals = st.integers(1, 38).flatmap(lambda digits: st.integers(0, digits).map(lambda scale: decimal(digits, scale)))
types = st.sampled_from([BOOLEAN, BIGINT, DOUBLE, STRING, TIMESTAMP, ADDRESS, NULL]) | decimals


@given(types, types)
def test_the_common_type_does_not_depend_on_the_order(first: DataType, second: DataType) -> None:
    assert common_type(first, second) == common_type(second, first)


@given(types)
def test_a_type_goes_with_itself_and_with_null(data_type: DataType) -> None:
    assert common_type(data_type, data_type) == data_type
    assert common_type(data_type, NULL) == data_type


@given(decimals, decimals)
def test_the_common_decimal_keeps_the_digits_after_the_point(first: DataType, second: DataType) -> None:
    common = common_type(first, second)
    assert common is not None
    assert common.scale == max(first.scale, second.scale)
    whole = max(first.precision - first.scale, second.precision - second.scale)
    assert common.precision == min(MAX_DECIMAL_DIGITS, whole + common.scale)


MIXED = [
    (BIGINT, DOUBLE, DOUBLE),
    (BIGINT, decimal(12, 2), decimal(21, 2)),
    (DOUBLE, decimal(12, 2), DOUBLE),
    (decimal(5, 2), decimal(10, 0), decimal(12, 2)),
    (BIGINT, STRING, None),
    (STRING, TIMESTAMP, None),
    (BOOLEAN, BIGINT, None),
    (ADDRESS, STRING, None),
]


@pytest.mark.parametrize(("first", "second", "common"), MIXED)
def test_types_that_mix_and_types_that_do_not(first: DataType, second: DataType, common: DataType | None) -> None:
    assert common_type(first, second) == common


def test_only_numbers_mix() -> None:
    others = [BOOLEAN, STRING, TIMESTAMP, ADDRESS, BIGINT]
    assert all((common_type(*pair) is None) == (pair[0] != pair[1]) for pair in product(others, repeat=2))


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (39, 0), (5, 6), (5, -1), (-1, 0)])
def test_decimals_that_can_not_be(precision: int, scale: int) -> None:
    with pytest.raises(ValueError, match="DECIMAL"):
        decimal(precision, scale)


def test_names() -> None:
    assert [str(data_type) for data_type in (BIGINT, decimal(12, 2), NULL)] == ["BIGINT", "DECIMAL(12, 2)", "NULL"]
    assert all(name == name.upper() for name in TYPE_NAMES)
    assert as_decimal(BIGINT) == decimal(19, 0)
    assert as_decimal(decimal(5, 1)) == decimal(5, 1)
