"""Durations and timestamps: text in, microseconds out, and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.time import (
    MAX_DURATION_US,
    MAX_TIMESTAMP_US,
    MIN_TIMESTAMP_US,
    UNIT_NAMES,
    format_duration,
    format_timestamp,
    from_microseconds,
    parse_duration,
    parse_timestamp,
    parse_zone,
    to_microseconds,
)

NEW_YORK = ZoneInfo("America/New_York")

DURATIONS = [
    ("12 min", 720_000_000),
    ("12min", 720_000_000),
    (" 12  MINUTES ", 720_000_000),
    ("90", 90_000_000),
    ("1.5", 1_500_000),
    ("0.5 ms", 500),
    ("1 hour 30 minutes", 5_400_000_000),
    ("1d2h3m4s5ms6us", 93_784_005_006),
    ("2 weeks", 1_209_600_000_000),
    ("0", 0),
    ("0.000001", 1),
    ("36500 days", MAX_DURATION_US),
]


@pytest.mark.parametrize(("text", "duration_us"), DURATIONS)
def test_durations(text: str, duration_us: int) -> None:
    assert parse_duration(text) == duration_us


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a duration"),
        ("min", "not a duration"),
        ("-5 s", "not a duration"),
        ("5 s -", "not a duration"),
        ("5 s, 3 s", "not a duration"),
        ("1e3 s", "not a unit"),
        ("5 apples", "not a unit"),
        ("1 2", "without a unit"),
        ("1 min 2", "without a unit"),
        ("1 month", "no fixed length"),
        ("1 day 2 Years", "no fixed length"),
        ("0.0000001 s", "whole number of microseconds"),
        ("36501 days", "longer than 100 years"),
        ("9" * 18 + " weeks", "longer than 100 years"),
        ("9" * 19, "without a unit"),
        ("٣ s", "not a duration"),
    ],
)
def test_what_is_no_duration(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_duration(text)


@given(st.integers(0, MAX_DURATION_US))
def test_a_printed_duration_reads_back(duration_us: int) -> None:
    assert parse_duration(format_duration(duration_us)) == duration_us


@pytest.mark.parametrize("unit", UNIT_NAMES)
def test_every_unit_is_a_whole_number_of_microseconds(unit: str) -> None:
    assert parse_duration(f"3 {unit}") == parse_duration(f"3 {unit.upper()}") == 3 * UNIT_NAMES[unit]


def test_the_largest_unit_that_divides_is_printed() -> None:
    assert [format_duration(value) for value in (0, 1, 1_000, 90_000_000, 3_600_000_000)] == [
        "0 day",
        "1 us",
        "1 ms",
        "90 s",
        "1 h",
    ]


TIMESTAMPS = [
    ("1970-01-01", 0),
    ("1970-01-01 00:00:01", 1_000_000),
    ("1970-01-01T00:00:00.000001", 1),
    ("1970-01-01 00:00:00.0000019", 1),
    ("1969-12-31 23:59:59.999999", -1),
    ("1970-01-01 01:00+01:00", 0),
    ("1970-01-01T00:00:00Z", 0),
    (" 1970-01-01 00:00:00,5 ", 500_000),
    ("0001-01-01", MIN_TIMESTAMP_US),
    ("9999-12-31 23:59:59.999999", MAX_TIMESTAMP_US),
]


@pytest.mark.parametrize(("text", "time_us"), TIMESTAMPS)
def test_timestamps(text: str, time_us: int) -> None:
    assert parse_timestamp(text) == time_us


NO_TIMESTAMPS = ["", "now", "1970", "1970-1-1", "1970-02-30", "0000-01-01", "10000-01-01", "١٩٧٠-01-01"]
NO_TIMESTAMPS += ["1970-01-01 24:00:00", "1970-01-01x00:00", "1970-01-01 0:00", "1970-01-01 00:00:00 UTC"]
NO_TIMESTAMPS += ["1970-01-01 00:00:00+25:00", "1970-01-01" + "1" * 1_000]


@pytest.mark.parametrize("text", NO_TIMESTAMPS)
def test_what_is_no_timestamp(text: str) -> None:
    with pytest.raises(ValueError, match="is not a timestamp"):
        parse_timestamp(text)


@pytest.mark.parametrize("text", ["0001-01-01 00:00:00+14:00", "9999-12-31 23:59:59-14:00"])
def test_beyond_the_years_1_to_9999_in_utc(text: str) -> None:
    with pytest.raises(ValueError, match="outside the years 1 to 9999"):
        parse_timestamp(text)


@given(st.integers(MIN_TIMESTAMP_US, MAX_TIMESTAMP_US))
def test_a_printed_timestamp_reads_back(time_us: int) -> None:
    assert parse_timestamp(format_timestamp(time_us)) == time_us
    assert parse_timestamp(format_timestamp(time_us), NEW_YORK) == time_us
    assert to_microseconds(from_microseconds(time_us)) == time_us


def test_a_naive_time_is_read_in_the_zone_and_an_aware_one_is_not() -> None:
    assert parse_timestamp("2026-07-01 12:00", NEW_YORK) == parse_timestamp("2026-07-01 16:00Z")
    assert parse_timestamp("2026-07-01 12:00Z", NEW_YORK) == parse_timestamp("2026-07-01 12:00")


def test_when_clocks_are_turned_back_the_earlier_of_the_two_is_meant() -> None:
    assert parse_timestamp("2026-11-01 01:30", NEW_YORK) == parse_timestamp("2026-11-01 05:30Z")


def test_ends_of_windows_beyond_the_calendar_of_python() -> None:
    assert format_timestamp(MAX_TIMESTAMP_US + 1) == "10000-01-01T00:00:00Z"
    assert format_timestamp(MIN_TIMESTAMP_US - 1) == "0000-12-31T23:59:59.999999Z"
    assert format_timestamp(MIN_TIMESTAMP_US - 366 * 86_400 * 1_000_000 - 1) == "-001-12-31T23:59:59.999999Z"


def test_moments_become_microseconds() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
    assert from_microseconds(to_microseconds(moment)) == moment
    assert to_microseconds(moment.replace(tzinfo=None), NEW_YORK) == to_microseconds(moment.replace(tzinfo=NEW_YORK))


def test_zones() -> None:
    assert parse_zone("utc") is UTC
    assert parse_zone("America/New_York") == NEW_YORK


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "../../etc/passwd", "/etc/passwd", "Europe", "x" * 5_000, "a\0b", "é", "zone.tab"]
)
def test_what_is_no_zone(name: str) -> None:
    with pytest.raises(ValueError, match="is not a time zone"):
        parse_zone(name)
