"""Strings among known ones, against a plain dictionary."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernel.level1.join import StringValues

TEXTS = st.one_of(st.sampled_from(["", "a", "a\0", "abcdefg", "abcdefgh", "abcdefg\0", "ü" * 9]), st.text(max_size=20))
COLUMNS = st.lists(st.none() | TEXTS)


@given(COLUMNS, st.lists(st.none() | TEXTS, min_size=1))
def test_strings_are_found_among_known_ones(texts: list[str | None], known: list[str | None]) -> None:
    values = StringValues([pa.array(known[:1], pa.string()), pa.array(known, pa.string()).slice(1)], pa.string())
    places = {text: place for place, text in enumerate(values.known.to_pylist())}
    assert values.numbers(pa.array(texts, pa.string())).tolist() == [places.get(text, -1) for text in texts]
