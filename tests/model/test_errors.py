"""Errors as people see them: code, message, carets under the spot, a hint; nothing that steers a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import HeadraceError, QueryError, Span, nearest, printable, underline


def test_the_whole_text() -> None:
    error = QueryError(
        "type", "that does not fit", detail="more", hint="try this", span=Span(7, 10), source="SELECT abc\nFROM x"
    )
    assert str(error).splitlines() == [
        "error[type]: that does not fit",
        "   1 | SELECT abc",
        "     |        ^^^",
        "  = more",
        "hint: try this",
    ]
    assert isinstance(error, HeadraceError)


def test_what_is_not_known_is_left_out() -> None:
    assert str(HeadraceError("code", "message")) == "error[code]: message"
    assert str(HeadraceError("code", "message", span=Span(0, 1))) == "error[code]: message"


@pytest.mark.parametrize(
    ("source", "span", "line", "carets"),
    [
        ("abc", Span(0, 1), "abc", "^"),
        ("abc", Span(1, 3), "abc", " ^^"),
        ("abc\ndef\nghi", Span(5, 6), "def", " ^"),
        ("abc\ndef", Span(2, 6), "abc", "  ^"),
        ("abc", Span(3, 4), "abc", "   ^"),
        ("abc", Span(9, 10), "abc", "   ^"),
        ("", Span(0, 1), "", "^"),
        ("a\tb", Span(2, 3), "a\N{REPLACEMENT CHARACTER}b", "  ^"),
    ],
)
def test_carets_stand_under_the_spot(source: str, span: Span, line: str, carets: str) -> None:
    shown, marks = underline(source, span)
    assert (shown[7:], marks[7:]) == (line, carets)


def test_the_line_number() -> None:
    assert underline("\n" * 41 + "x", Span(41, 42))[0] == "  42 | x"


@given(st.text(max_size=400), st.integers(0, 400), st.integers(1, 400))
def test_a_long_line_is_cut_around_the_spot(source: str, start: int, length: int) -> None:
    shown, marks = underline(source, Span(start, start + length), width=40)
    assert len(shown) <= 40 + 12
    assert len(marks) <= 40 + 12
    assert "^" in marks
    column = marks.index("^")
    start = min(start, len(source))
    if start < len(source) and source[start] != "\n":
        assert shown[column] == printable(source[start])


@given(st.text())
def test_nothing_steers_the_terminal(text: str) -> None:
    assert all(line.isprintable() for line in str(QueryError("code", text, detail=text, hint=text)).split("\n"))


def test_no_message_floods_the_terminal() -> None:
    text = str(QueryError("code", "x" * 70_000, hint="y" * 70_000, span=Span(0, 70_000), source="z" * 70_000))
    assert len(text) < 3_000


def test_the_nearest_name() -> None:
    known = ["Symbol", "Price", "Vol"]
    assert nearest("symbl", known) == "did you mean 'Symbol'?"
    assert nearest("PRIZE", known) == "did you mean 'Price'?"
    assert nearest("something", known) is None
    assert nearest("x", []) is None


def test_names_far_away_are_not_offered() -> None:
    known = ["avg", "instr", "sum", "count", "Close", "price"]
    assert [nearest(name, known) for name in ("lag", "first")] == [None, None]
    found = [nearest(name, known) for name in ("sun", "cuont", "cnt", "clothes", "rice")]
    assert found == [f"did you mean '{name}'?" for name in ("sum", "count", "count", "Close", "price")]
