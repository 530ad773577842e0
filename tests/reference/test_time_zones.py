"""Times in texts: naive ones are read in the stream's zone, aware ones are what they say."""

from __future__ import annotations

import pytest

from tests.reference.scenario import at, bounded, outcome

HOUR = 3_600
NEW_YORK = "TIME ZONE 'America/New_York'"


@pytest.mark.parametrize(
    ("zone", "constant", "seconds"),
    [
        ("", "1970-01-02 00:00:00", 24 * HOUR),
        ("TIME ZONE 'UTC'", "1970-01-02", 24 * HOUR),
        (NEW_YORK, "1970-01-02 00:00:00", 29 * HOUR),
        (NEW_YORK, "1970-01-02T00:00:00Z", 24 * HOUR),
        (NEW_YORK, "1970-01-02 00:00:00+02:00", 22 * HOUR),
        ("TIME ZONE 'Asia/Kolkata'", "1970-01-02 00:00:00", 24 * HOUR - 19_800),
    ],
)
def test_constants(zone: str, constant: str, seconds: int) -> None:
    # time   seconds - 1   seconds
    # row    r             r           only the second one is not before the constant
    for written in (f"TIMESTAMP '{constant}'", f"'{constant}'", f"CAST('{constant}' AS TIMESTAMP)"):
        query = f"SELECT max(t) AS last, count(*) AS n FROM s [RANGE 100000000] WHERE t >= {written}"
        ((_, _, last, count),) = bounded(query, at(seconds - 1), at(seconds), stream=zone)
        assert (last, count) == (seconds * 1_000_000, 1)


def test_casts_of_columns_are_read_in_the_zone_too() -> None:
    for zone, seconds in (("", 24 * HOUR), (NEW_YORK, 29 * HOUR)):
        found = outcome("unix_seconds(CAST(k AS TIMESTAMP))", zone, k="1970-01-02 00:00:00")
        assert found == (seconds, 0)


def test_summer_time() -> None:
    # New York: -5 hours in January, -4 in July
    for day, offset in (("2026-01-15", 5), ("2026-07-15", 4)):
        utc = outcome("unix_seconds(CAST(k AS TIMESTAMP))", k=f"{day} 12:00:00").value
        local = outcome("unix_seconds(CAST(k AS TIMESTAMP))", NEW_YORK, k=f"{day} 12:00:00").value
        assert (utc, local) == (utc, int(str(utc)) + offset * HOUR)


def test_a_time_that_the_clocks_show_twice_is_the_earlier_one() -> None:
    # 2026-11-01 in New York: 01:30 comes at 05:30 UTC and again at 06:30 UTC
    twice = outcome("unix_seconds(CAST(k AS TIMESTAMP))", NEW_YORK, k="2026-11-01 01:30:00").value
    assert twice == outcome("unix_seconds(CAST(k AS TIMESTAMP))", k="2026-11-01 05:30:00").value


def test_windows_do_not_follow_the_zone() -> None:
    # A day's window begins at midnight UTC wherever the stream comes from.
    assert bounded("SELECT count(*) AS n FROM s [RANGE '1 day']", at(0), stream=NEW_YORK) == [(0, 24 * HOUR, 1)]
