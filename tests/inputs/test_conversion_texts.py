"""Texts read by Arrow all at once are read as CAST reads each of them."""

from __future__ import annotations

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.expressions.casts import from_text
from headrace.expressions.columns import Evaluated
from headrace.inputs.conversion import plain_addresses, plain_times, read_texts
from headrace.model.types import ADDRESS, TIMESTAMP

ZONES = st.sampled_from([UTC, ZoneInfo("America/New_York"), ZoneInfo("Asia/Kathmandu")])
TWO = st.integers(0, 61).map(lambda number: f"{number:02}")
CLOCK = st.tuples(TWO, TWO, TWO).map(":".join)
DATE = st.tuples(st.integers(0, 9999).map(lambda year: f"{year:04}"), st.sampled_from(["01", "02", "11", "13"]), TWO)
FRACTION = st.sampled_from(["", ".5", ".123456", ".1234567", ","])
TIMES = st.lists(st.none() | st.builds("{}T{}{}".format, DATE.map("-".join), CLOCK, FRACTION), max_size=4)
HOSTS = st.lists(
    st.none() | st.ip_addresses().map(str) | st.sampled_from(["1.2.3.04", "1.2.3", "256.1.1.1"]), max_size=4
)


def same(left: Evaluated, right: Evaluated) -> bool:
    failed = [[] if each.failed is None else each.failed.tolist() for each in (left, right)]
    return bool(left.values.equals(right.values)) and failed[0] == failed[1]


@given(TIMES, st.sampled_from(["", "Z", "+01:00"]), ZONES)
def test_times(texts: list[str | None], suffix: str, zone: tzinfo) -> None:
    array = pa.array([None if text is None else text + suffix for text in texts], pa.string())
    assert same(read_texts(array, TIMESTAMP, zone), from_text(array, TIMESTAMP, zone))


@given(HOSTS | st.lists(st.none() | st.ip_addresses(v=4).map(str)))
def test_addresses(texts: list[str | None]) -> None:
    array = pa.array([None, *texts], pa.string())[1:]
    assert same(read_texts(array, ADDRESS, UTC), from_text(array, ADDRESS, UTC))


@pytest.mark.parametrize("form", ["2026-01-31 12:00:00", "2026-01-31T12:00:00.123456"])
@pytest.mark.parametrize("suffix", ["", "Z"])
def test_usual_forms_are_read_at_once(form: str, suffix: str) -> None:
    assert plain_times(pa.array([form + suffix, None]), UTC) is not None
    assert plain_addresses(pa.array(["10.0.0.255", None])) is not None
