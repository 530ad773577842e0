"""Groups as numbers into tables of distinct ones: equal values have one number, also from several tables."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernel.groups import KNOWN_UNIONS, Groups, encode, encode_columns, put_together
from headrace.model.expressions import ColumnRef, Expression
from headrace.model.types import BIGINT, DOUBLE

X, Y = ColumnRef("S", "x", BIGINT), ColumnRef("S", "y", DOUBLE)
VALUES = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1), st.sampled_from([None, 0.0, -0.0, 1.5])
    )
)


def groups_of(rows: list[tuple[int | None, float | None]]) -> Groups:
    columns: dict[Expression, pa.Array] = {
        X: pa.array([x for x, _ in rows], pa.int64()),
        Y: pa.array([y for _, y in rows], pa.float64()),
    }
    return encode_columns(columns, len(rows))


def values_of(groups: Groups) -> list[tuple[int | None, float | None]]:
    return list(zip(groups[X].to_pylist(), groups[Y].to_pylist(), strict=True))


@given(VALUES)
def test_rows_have_one_number_if_their_values_are_equal(rows: list[tuple[int | None, float | None]]) -> None:
    groups = groups_of(rows)
    assert values_of(groups) == rows
    assert len(set(groups.codes.tolist())) == len(set(rows)) == groups.table.size


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_tables_are_united(parts: list[list[tuple[int | None, float | None]]]) -> None:
    whole = [row for rows in parts for row in rows]
    found = put_together([groups_of(rows) for rows in parts])
    assert values_of(found) == whole
    assert len(set(found.codes.tolist())) == len(set(whole)) == found.table.size


def test_parts_of_one_table_keep_it() -> None:
    groups = groups_of([(1, 0.0), (2, None), (1, 0.0)])
    found = put_together([groups.at(np.array([2])), groups])
    assert found.table is groups.table
    assert found.codes.tolist() == [0, 0, 1, 0]


def test_a_column_may_have_nulls_and_no_columns_make_one_group() -> None:
    only = encode_columns({X: pa.array([None, 7, None], pa.int64())}, 3)
    assert only[X].to_pylist() == [None, 7, None]
    assert encode_columns({}, 2).codes.tolist() == [0, 0]


def test_whole_numbers_are_coded_alike_whether_they_are_close_or_not() -> None:
    for numbers in ([5, 3, 5, 4], [-(2**63), 2**63 - 1, 0, -(2**63)]):
        encoded = encode(pa.array(numbers))
        assert encoded.dictionary.take(pa.array(encoded.codes)).to_pylist() == numbers
        assert encoded.codes.tolist() in ([0, 1, 0, 2], [0, 1, 2, 0])


def test_nothing_is_kept_of_tables_that_are_gone() -> None:
    put_together([groups_of([(1, 0.0)]), groups_of([(2, 0.0)])])
    gc.collect()
    assert not KNOWN_UNIONS
