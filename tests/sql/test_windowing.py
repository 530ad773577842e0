"""Windows in all their syntaxes become one kind of value, at the right offset."""

from __future__ import annotations

import pytest

from headrace.model.time import SECOND_US
from headrace.model.windows import AnyWindow, SlicedWindow, Window
from headrace.sql import format_window
from tests.sql.catalog import parse


def seconds(range_s: float, slide_s: float, offset_s: float = 0) -> Window:
    return Window(round(range_s * SECOND_US), round(slide_s * SECOND_US), round(offset_s * SECOND_US))


BRACKETS = [
    ("[RANGE '12 min' SLIDE '5 min']", seconds(720, 300)),
    ("[RANGE 12 MINUTES SLIDE 5 MINUTES]", seconds(720, 300)),
    ("[range '12 minutes' slide '5 Minutes' offset '1 min']", seconds(720, 300, 60)),
    ("[RANGE 720 SLIDE 300 OFFSET 301]", seconds(720, 300, 1)),
    ("[RANGE INTERVAL '12' MINUTE SLIDE INTERVAL 5 MINUTES]", seconds(720, 300)),
    ("[RANGE '12 min']", seconds(720, 720)),
    ("[RANGE '12 min' OFFSET '1 min']", seconds(720, 720, 60)),
    ("[RANGE 90]", seconds(90, 90)),
    ("[RANGE '90']", seconds(90, 90)),
    ("[RANGE 1.5]", seconds(1.5, 1.5)),
    ("[RANGE '1 hour 30 minutes' SLIDE '1 day']", seconds(5_400, 86_400)),
    ("[RANGE 2 HOURS SLIDE 1 SECOND]", seconds(7_200, 1)),
    ("[RANGE 250 MS SLIDE '100 us']", seconds(0.25, 0.0001)),
    ("[RANGE '2 weeks']", seconds(1_209_600, 1_209_600)),
    ("[SLICES '12 sec', '3 sec']", SlicedWindow((12 * SECOND_US, 3 * SECOND_US))),
    ("[SLICES 12, 3 OFFSET 16]", SlicedWindow((12 * SECOND_US, 3 * SECOND_US), SECOND_US)),
    ("[SLICES 5]", seconds(5, 5)),
    ("[SLICES 5, 5 OFFSET 7]", seconds(5, 5, 2)),
]


@pytest.mark.parametrize(("text", "window"), BRACKETS)
def test_brackets_behind_the_stream(text: str, window: AnyWindow) -> None:
    assert parse(f"SELECT count(*) FROM Trades {text}").window == window
    assert parse(f"SELECT count(*) FROM Trades T {text} WHERE T.ok").window == window
    assert parse(f"SELECT count(*) FROM Trades {text} AS T WHERE T.ok").window == window


@pytest.mark.parametrize(("text", "window"), BRACKETS)
def test_canonical_windows_read_back(text: str, window: AnyWindow) -> None:
    assert parse(f"SELECT count(*) FROM Trades {format_window(window)}").window == window


# 12 minutes every 5, ends aligned:    ...|-12....0|, |-7....5|    starts aligned:   |0....12|, |5....17|
#                                      offset 0                    offset 12 mod 5 = 2
STARTS = [
    ("window(ts, '12 minutes', '5 minutes')", seconds(720, 300, 120)),
    ("window(ts, '12 minutes', '5 minutes', '1 minute')", seconds(720, 300, 180)),
    ("WINDOW(ts, '12 minutes')", seconds(720, 720)),
    ("window(ts, '12 minutes', '12 minutes', '1 minute') AS w", seconds(720, 720, 60)),
    ("window(ts, 90, 60)", seconds(90, 60, 30)),
    ("window(Trades.ts, '15 minutes', '5 minutes')", seconds(900, 300)),
]


@pytest.mark.parametrize(("text", "window"), STARTS)
def test_windows_in_group_by_align_their_starts(text: str, window: Window) -> None:
    assert parse(f"SELECT count(*) FROM Trades GROUP BY {text}").window == window
    grouped = parse(f"SELECT count(*) FROM Trades GROUP BY symbol, {text}")
    assert (grouped.window, len(grouped.group_by)) == (window, 1)


TABLE_FUNCTIONS = [
    ("HOP(TABLE Trades, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '12' MINUTE)", seconds(720, 300, 120)),
    ("HOP(TABLE Trades, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '12' MINUTE, '1 min')", seconds(720, 300, 180)),
    ("hop(table trades, descriptor(TS), '5 min', 12 MINUTES)", seconds(720, 300, 120)),
    ("TUMBLE(TABLE Trades, DESCRIPTOR(ts), INTERVAL '1' HOUR)", seconds(3_600, 3_600)),
    ("TUMBLE(TABLE Trades, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '10' MINUTE)", seconds(3_600, 3_600, 600)),
]


@pytest.mark.parametrize(("text", "window"), TABLE_FUNCTIONS)
def test_table_functions_align_their_starts(text: str, window: Window) -> None:
    for source in (text, f"TABLE({text})", f"TABLE({text}) AS T", f"TABLE({text}) T"):
        assert parse(f"SELECT count(*) FROM {source}").window == window
    grouped = parse(
        f"SELECT window_start, window_end, symbol, count(*) FROM {text} GROUP BY window_start, window_end, symbol"
    )
    assert len(grouped.group_by) == 1


@pytest.mark.parametrize("text", ["time/60", "time / 60 AS tb", "time DIV 60", "(time/60) AS tb", "UDP.time/60"])
def test_a_division_of_the_event_time_tumbles(text: str) -> None:
    assert parse(f"SELECT count(*) FROM UDP GROUP BY {text}, port").window == seconds(60, 60)


def test_the_name_of_a_division_is_the_number_of_the_window() -> None:
    query = parse("SELECT tb, count(*) FROM UDP GROUP BY time/60 AS tb HAVING tb > 5 ORDER BY tb")
    numbered = parse(
        "SELECT unix_seconds(window_start) DIV 60 AS tb, count(*) FROM UDP [RANGE 60] "
        "HAVING unix_seconds(window_start) DIV 60 > 5 ORDER BY unix_seconds(window_start) DIV 60"
    )
    assert query == numbered


def test_sparks_names_for_the_bounds() -> None:
    bounds = parse("SELECT window_start AS a, window_end AS b, count(*) FROM Trades GROUP BY window(ts, '1 min')")
    assert (
        parse("SELECT window.start AS a, WINDOW.END AS b, count(*) FROM Trades GROUP BY window(ts, '1 min')") == bounds
    )
    assert parse("SELECT w.start AS a, w.end AS b, count(*) FROM Trades GROUP BY window(ts, '1 min') AS w") == bounds


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (seconds(720, 300), "[RANGE '12 min' SLIDE '5 min']"),
        (seconds(720, 300, 120), "[RANGE '12 min' SLIDE '5 min' OFFSET '2 min']"),
        (seconds(60, 60), "[RANGE '1 min' SLIDE '1 min']"),
        (seconds(0.0015, 86_400), "[RANGE '1500 us' SLIDE '1 day']"),
        (SlicedWindow((SECOND_US, 2 * SECOND_US), 5), "[SLICES '1 s', '2 s' OFFSET '5 us']"),
    ],
)
def test_canonical_text_has_units_and_a_non_zero_offset(window: AnyWindow, text: str) -> None:
    assert format_window(window) == text
