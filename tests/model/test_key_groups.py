"""Which reducer owns which key groups, and how many share the rows without groups."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.key_groups import KEY_GROUPS, Partitioning, choose_partitioning


@given(st.integers(1, KEY_GROUPS))
def test_each_key_group_has_one_owner(reducers: int) -> None:
    partitioning = Partitioning(reducers, 1)
    ranges = [partitioning.key_groups(reducer) for reducer in range(reducers)]
    assert [first for first, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    assert ranges[-1][1] == KEY_GROUPS
    assert all(
        key_group * reducers // KEY_GROUPS == reducer
        for reducer, (first, end) in enumerate(ranges)
        for key_group in (first, end - 1)
    )


@given(st.integers(1, 64), st.integers(0, 4_000), st.integers(0, 4_000))
def test_rows_without_groups_are_at_as_many_reducers_as_help(reducers: int, before: int, now: int) -> None:
    known = choose_partitioning(reducers, before, None)
    chosen = choose_partitioning(reducers, now, known)
    fresh = choose_partitioning(reducers, now, None)
    assert 1 <= chosen.copies <= reducers
    assert fresh.copies / 2 <= chosen.copies <= fresh.copies * 2
    assert choose_partitioning(reducers, now, chosen) == chosen
    assert choose_partitioning(reducers + 1, now, known).reducers == reducers + 1
