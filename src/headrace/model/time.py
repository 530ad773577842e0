"""Time is int microseconds since the epoch, UTC. Here it meets text: durations and timestamps, in and out."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from fractions import Fraction
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MIN_TIMESTAMP_US = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
MAX_TIMESTAMP_US = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
OUT_OF_RANGE = "column {} is outside the years 1 to 9999"
"""Why a row is rejected whose time is earlier or later: windows around it must be times as well."""
SECOND_US = 1_000_000
CALENDAR_YEARS, CALENDAR_US = 400, 146_097 * 86_400 * SECOND_US
MAX_DURATION_US = 100 * 365 * 86_400 * SECOND_US

UNITS_US = {
    "day": 86_400 * SECOND_US,
    "h": 3_600 * SECOND_US,
    "min": 60 * SECOND_US,
    "s": SECOND_US,
    "ms": 1_000,
    "us": 1,
}
UNIT_NAMES = {
    **dict.fromkeys(("week", "weeks"), 7 * UNITS_US["day"]),
    **dict.fromkeys(("d", "day", "days"), UNITS_US["day"]),
    **dict.fromkeys(("h", "hr", "hour", "hours"), UNITS_US["h"]),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), UNITS_US["min"]),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), UNITS_US["s"]),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), UNITS_US["ms"]),
    **dict.fromkeys(("us", "microsecond", "microseconds"), UNITS_US["us"]),
}
CALENDAR_UNITS = {"month", "months", "quarter", "quarters", "year", "years"}
DURATION_PART = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)\s*")
TIMESTAMP_TEXT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[ Tt][0-9]{2}(?::[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?)?(?:[Zz]|[+-][0-9]{2}(?::?[0-9]{2}){0,2})?)?"
)


def parse_duration(text: str) -> int:
    """Return the microseconds of '12 min', '1 hour 30 minutes', '1.5 s' or a bare number of seconds, or ValueError."""
    total = Fraction(0)
    position = 0
    while position < len(text) or position == 0:
        match = DURATION_PART.match(text, position)
        if match is None:
            raise ValueError(f"'{text}' is not a duration; write it like '12 min', '90 s' or '1 hour 30 minutes'")
        number, unit = match.groups()
        if unit.lower() in CALENDAR_UNITS:
            raise ValueError(f"'{unit}' has no fixed length: calendar windows are not supported; use days or less")
        if unit and unit.lower() not in UNIT_NAMES:
            raise ValueError(f"'{unit}' is not a unit of time; use day, h, min, s, ms or us")
        if not unit and (match.start(), match.end()) != (0, len(text)):
            raise ValueError(f"'{text}' has a number without a unit")
        total += Fraction(number) * UNIT_NAMES[unit.lower() or "s"]
        position = match.end()
    if total.denominator != 1:
        raise ValueError(f"'{text}' is not a whole number of microseconds")
    if total > MAX_DURATION_US:
        raise ValueError(f"'{text}' is longer than 100 years")
    return int(total)


def format_duration(duration_us: int) -> str:
    """Return the duration in the largest unit that divides it: 720000000 is '12 min'."""
    unit = next(name for name, size in UNITS_US.items() if duration_us % size == 0)
    return f"{duration_us // UNITS_US[unit]} {unit}"


def parse_timestamp(text: str, zone: tzinfo = UTC) -> int:
    """Return the microseconds of an ISO 8601 time. A naive one is read in `zone`; digits below 1 us are cut off."""
    cleaned = text.strip()
    if not TIMESTAMP_TEXT.fullmatch(cleaned):
        raise ValueError(f"'{text}' is not a timestamp; write it like '2026-01-31 12:00:00' or '2026-01-31T12:00:00Z'")
    try:
        moment = datetime.fromisoformat(cleaned)
    except ValueError:
        raise ValueError(f"'{text}' is not a timestamp; write it like '2026-01-31 12:00:00'") from None
    time_us = to_microseconds(moment, zone)
    if not MIN_TIMESTAMP_US <= time_us <= MAX_TIMESTAMP_US:
        raise ValueError(f"'{text}' is outside the years 1 to 9999 in UTC")
    return time_us


def to_microseconds(moment: datetime, zone: tzinfo = UTC) -> int:
    """Return microseconds since the epoch. A naive moment is read in `zone`; of two with the same name, the earlier."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
    return (aware - EPOCH) // MICROSECOND


def from_microseconds(time_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=time_us)


def format_timestamp(time_us: int) -> str:
    """Return ISO 8601 in UTC, with as many digits of the second as it takes: '2026-01-31T12:00:00Z'.

    A window may begin before the year 1 or end after 9999, which Python has no dates for; the calendar repeats.
    """
    repeats = 0 if MIN_TIMESTAMP_US <= time_us <= MAX_TIMESTAMP_US else time_us // CALENDAR_US
    moment = from_microseconds(time_us - repeats * CALENDAR_US).replace(tzinfo=None)
    text = moment.isoformat(timespec="microseconds" if moment.microsecond else "seconds")
    return f"{moment.year + repeats * CALENDAR_YEARS:04d}{text[4:]}Z"


def parse_zone(name: str) -> tzinfo:
    try:
        return UTC if name.upper() in ("UTC", "Z") else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"'{name}' is not a time zone; use a name like 'America/New_York' or 'UTC'") from None


def later(first: int | None, second: int | None) -> int | None:
    """Return the later of two times; None counts as no time."""
    return max((time_us for time_us in (first, second) if time_us is not None), default=None)


def earlier(first: int | None, second: int | None) -> int | None:
    """Return the earlier of two times; None counts as no time."""
    return min((time_us for time_us in (first, second) if time_us is not None), default=None)
