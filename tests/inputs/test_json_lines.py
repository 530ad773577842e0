"""JSON lines: Arrow's reading of a block is that of each line, and exactly the bad lines are rejected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.inputs import InputRows, Source
from headrace.inputs.folders import Folders
from headrace.inputs.json_lines import JsonFormat
from headrace.inputs.lines import LineBlock, ParsedLines, parse
from headrace.inputs.readers import typed_rows
from headrace.inputs.source import Declaration
from headrace.model.schema import Column, Stream
from headrace.model.time import parse_timestamp
from headrace.model.types import ADDRESS, BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, decimal
from tests.inputs.samples import STREAM, read_file, rejects

COLUMNS = (
    Column("at", TIMESTAMP),
    Column("b", BOOLEAN),
    Column("n", BIGINT),
    Column("X", DOUBLE),
    Column("d", decimal(5, 2)),
    Column("s", STRING),
    Column("a", ADDRESS),
)
DECLARED = Declaration(COLUMNS)
FORMAT = JsonFormat(COLUMNS, 0)

NUMBERS = ["0", "-0", "7", "1.5", "1e2", "-1.25", "99999", "1.555", "1e400", "9223372036854775808", "01", "NaN", "Inf"]
TEXTS = ['"x"', '"2026-01-01"', '"2026-01-01T00:00:00Z"', '"10.0.0.1"', '"::1"', '"1.5"', '""', '"\\ud83d\\ude00"']
ODD = ['"\\ud800"', '"\\u0000"', '"a\tb"', "{}", "[1]", '{"n": 1}', "tru", "", '"\\u0041"', "-Infinity", '"é"', '"s"']
GOOD = {"at": TEXTS[1:3], "b": ["true"], "n": ["7"], "X": ["7", "1.5"], "d": ["1.5"], "s": TEXTS, "a": ['"::1"']}
KEYS = ['"at"', '"b"', '"n"', '"X"', '"x"', '"d"', '"s"', '"S"', '"a"', '"other"', '"\\u006e"', '"\\u004e"', '"N"']

VALUES = st.sampled_from([*NUMBERS, *TEXTS, *ODD, "null", "true", "false"])
LIKELY = st.lists(
    st.sampled_from(list(GOOD)).flatmap(lambda name: st.tuples(st.just(f'"{name}"'), st.sampled_from(GOOD[name]))),
    max_size=6,
    unique_by=lambda pair: pair[0],
)
ANY = st.lists(st.tuples(st.sampled_from(KEYS), VALUES), max_size=4)
OBJECTS = (LIKELY | ANY).map(lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}")
JUNK = st.sampled_from(
    ["", "  ", "null", "[1]", "{", "}", "{}{}", "{} null {}", '{"n": 1} x', " {}", "1", '{"x": "\xff"}', "{},"]
)
BLOCKS = st.lists(st.one_of(LIKELY.map(lambda pairs: "{" + ",".join(map(":".join, pairs)) + "}"), OBJECTS), max_size=6)
MIXED = st.lists(OBJECTS | JUNK, max_size=8)


def typed(found: list[tuple[LineBlock, ParsedLines]]) -> tuple[list[str], list[tuple[str, str]]]:
    """As text, in which NaN equals itself and 0.0 is not -0.0."""
    rows = [typed_rows(lines, parsed, DECLARED, list(COLUMNS), Folders({})) for lines, parsed in found]
    table = [str(row) for each in rows for row in each.table.to_pylist()]
    return table, [pair for each in rows for pair in rejects(each)]


@settings(max_examples=300)
@given(BLOCKS | MIXED, st.sampled_from(["\n", "\r\n"]), st.sampled_from([1, 2, 64]))
def test_both_paths_give_equal_rows(texts: list[str], end: str, slow_lines: int) -> None:
    lines = LineBlock.of(end.join(texts).encode("latin-1"))
    by_line = typed([(lines, FORMAT.slow(lines))])
    assert typed(list(parse(lines, FORMAT.fast, FORMAT.slow, slow_lines))) == by_line


@given(st.lists(LIKELY, min_size=1))
def test_usual_lines_take_the_fast_path(rows: list[list[tuple[str, str]]]) -> None:
    lines = LineBlock.of("\n".join("{" + ",".join(map(":".join, pairs)) + "}" for pairs in rows).encode())
    assert FORMAT.fast(lines) is not None


def test_usual_lines_in_another_spelling_take_the_fast_path() -> None:
    lines = LineBlock.of(b'{"AT": null, "N": 1}\n{"N": 2, "info": "Information: <\\u003c"}\n')
    found = FORMAT.fast(lines)
    assert found is not None
    assert found.columns["n"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"n": 1.0}', "column n can't be read as BIGINT"),
        ('{"n": "1"}', "column n can't be read as BIGINT"),
        ('{"n": true}', "column n can't be read as BIGINT"),
        ('{"n": 9223372036854775808}', "column n can't be read as BIGINT"),
        ('{"n": {"m": 1}}', "column n can't be read as BIGINT"),
        ('{"n": 1, "n": 1}', "column n is given twice"),
        ('{"flag": 1}', "column flag can't be read as BOOLEAN"),
        ('{"x": "1.5"}', "column x can't be read as DOUBLE"),
        ('{"word": 1}', "column word can't be read as STRING"),
        ('{"word": "\\ud800"}', "column word can't be read as STRING"),
        ('{"at": 1700000000}', "column at can't be read as TIMESTAMP"),
        ('{"at": "yesterday"}', "column at can't be read as TIMESTAMP"),
        ('{"host": "10.0.0.300"}', "column host can't be read as ADDRESS"),
        ('{"price": 1e20}', "column price can't be read as DECIMAL(12, 3)"),
        ("[1]", "not a JSON object"),
        ('{"n": 1} {"n": 2}', "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"deep": ' + "[" * 100_000 + "]}", "not a JSON object"),
    ],
)
def test_rejected(tmp_path: Path, line: str, reason: str) -> None:
    good = [json.dumps({"at": "2026-01-01 00:00:00", "n": number}) for number in range(200)]
    path = tmp_path / "part"
    path.write_text("\n".join([*good[:90], line, *good[90:], line]))
    found = read_file(Source(str(tmp_path), "json"), path, columns=["at", "n"], unit_bytes=500)
    assert rejects(found) == [(line, reason)] * 2
    assert found.table["n"].to_pylist() == list(range(200))


def test_bytes_that_are_not_utf8_are_shown_with_marks(tmp_path: Path) -> None:
    path = tmp_path / "part"
    path.write_bytes(b'{"n": 1}\n{"word": "\xff"}\n{"other": "\xff"}\n\n  \n{"n": 2}')
    found = read_file(Source(str(tmp_path), "json"), path)
    marked = ['{"word": "\ufffd"}', '{"other": "\ufffd"}']
    assert rejects(found) == [(line, "not valid UTF-8") for line in marked]
    assert found.table["n"].to_pylist() == [1, 2]


def test_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "part"
    path.write_text('{"x": NaN}\n{"x": -Infinity}\n{"x": 7}\n{"x": Inf}')
    found = read_file(Source(str(tmp_path), "json"), path)
    assert str(found.table["x"].to_pylist()) == "[nan, -inf, 7.0]"
    assert rejects(found) == [('{"x": Inf}', "not a JSON object")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"N": 3}, 3),
        ({"n": 3, "N": 4}, 3),
        ({"N": 4, "n": None}, None),
        ({"other": {"n": 4}}, None),
    ],
)
def test_names_in_any_case(tmp_path: Path, line: dict[str, Any], expected: int | None) -> None:
    path = tmp_path / "part"
    path.write_text("\n".join(map(json.dumps, [{"n": 1}, line, {"N": 2}])))
    found = read_file(Source(str(tmp_path), "json"), path)
    assert found.table["n"].to_pylist() == [1, expected, 2]


def test_rejection_does_not_depend_on_the_asked_columns(tmp_path: Path) -> None:
    (tmp_path / "part").write_text('{"n": "x"}\n{"n": 1}')
    some: InputRows = read_file(Source(str(tmp_path), "json"), tmp_path / "part", columns=["at"])
    assert (some.table.num_rows, len(rejects(some))) == (1, 1)
    assert some.table.schema == pa.schema([("at", pa.timestamp("us", tz="UTC"))])


def test_naive_times_are_read_in_the_zone_of_the_stream(tmp_path: Path) -> None:
    stream = Stream("s", STREAM.columns, "at", zone=ZoneInfo("America/New_York"))
    texts = ["2026-07-01 12:00:00", "2026-07-01T12:00:00.25", "2026-07-01T12:00:00Z", "2026-11-01 01:30:00"]
    for kept in (texts, texts[:2], texts[2:3]):
        (tmp_path / "part").write_text("\n".join(json.dumps({"at": text}) for text in kept))
        found = read_file(Source(str(tmp_path), "json"), tmp_path / "part", stream)
        assert found.table["at"].cast(pa.int64()).to_pylist() == [parse_timestamp(text, stream.zone) for text in kept]
