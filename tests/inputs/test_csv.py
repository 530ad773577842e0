"""CSV: Arrow's splitting of a block is that of each line, and exactly the bad lines are rejected."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.inputs import BadFile, Source
from headrace.inputs.csv import CsvFormat
from headrace.inputs.lines import LineBlock, ParsedLines, parse
from headrace.model.errors import UsageError
from tests.inputs.samples import STREAM, read_file, rejects

FIELDS = st.text(st.sampled_from('ab" N\réÿ\ufeff\0'), max_size=4) | st.sampled_from(
    ['""', '"a,b"', '"a""b"', "NA", '"NA"']
)
LINES = st.lists(FIELDS, min_size=1, max_size=4).map(",".join)


def texts(found: list[tuple[LineBlock, ParsedLines]]) -> list[object]:
    kept = [
        (lines.raw(int(number)), [array[row].as_py() for array in parsed.columns.values()])
        for lines, parsed in found
        for row, number in enumerate(parsed.kept)
    ]
    return [kept, [(lines.raw(number), reason) for lines, parsed in found for number, reason in parsed.refused]]


@settings(max_examples=300)
@given(
    st.lists(LINES, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-16-be"]),
    st.integers(1, 3),
    st.sampled_from(['"', ""]),
    st.sampled_from([1, 64]),
)
def test_both_paths_give_equal_rows(
    rows: list[str], end: str, encoding: str, fields: int, quote: str, slow_lines: int
) -> None:
    lines = LineBlock.of(end.join(rows).encode(encoding))
    layout = CsvFormat(",", quote, ("", "NA"), fields, {str(position): position for position in range(fields)}, 0)
    assert texts(list(parse(lines, layout.fast, layout.slow, slow_lines))) == texts([(lines, layout.slow(lines))])


@given(st.lists(st.tuples(*[st.sampled_from(["a", "", '""', '"a,b"', '"é""b"', "1.5"])] * 3), min_size=1))
def test_usual_lines_take_the_fast_path(rows: list[tuple[str, ...]]) -> None:
    layout = CsvFormat(",", '"', ("",), 3, {"a": 0}, 0)
    assert layout.fast(LineBlock.of("\r\n".join(map(",".join, rows)).encode())) is not None


HEADER = "at,flag,n,x,price,wide,word,host"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("yesterday,,,,,,,", "column at can't be read as TIMESTAMP"),
        (",maybe,,,,,,", "column flag can't be read as BOOLEAN"),
        (",,1.5,,,,,", "column n can't be read as BIGINT"),
        (',,"",,,,,', "column n can't be read as BIGINT"),
        (",,,one,,,,", "column x can't be read as DOUBLE"),
        (",,,,1234567890,,,", "column price can't be read as DECIMAL(12, 3)"),
        (",,x,,,,,10.0.0.300", "column n can't be read as BIGINT"),
        (",,,,,,,10.0.0.300", "column host can't be read as ADDRESS"),
        (",,", "3 fields instead of 8"),
        (",,,,,,,,", "9 fields instead of 8"),
        (',,,,,,"a,', "a quote that is not closed"),
        ("   ", "1 fields instead of 8"),
    ],
)
def test_rejected(tmp_path: Path, line: str, reason: str) -> None:
    good = [f"2026-01-01 00:00:00,true,{number},,,,é," for number in range(200)]
    path = tmp_path / "part"
    path.write_text("\n".join([HEADER, *good[:90], line, "", *good[90:], line]), encoding="utf-8")
    found = read_file(Source(str(tmp_path), "csv"), path, columns=["at", "n"], unit_bytes=500)
    assert rejects(found) == [(line, reason)] * 2
    assert found.table["n"].to_pylist() == list(range(200))


def test_bytes_that_are_not_utf8_are_shown_with_marks(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"at,word,other\n,\xff,\n,,\xff\r\n,b,\n")
    found = read_file(Source(str(tmp_path), "csv"), tmp_path / "part")
    assert rejects(found) == [(line, "not valid UTF-8") for line in (",\ufffd,", ",,\ufffd")]
    assert found.table["word"].to_pylist() == ["b"]


def test_header_in_any_order_and_case_with_other_columns(tmp_path: Path) -> None:
    (tmp_path / "part").write_text('\ufeff"Word",extra,AT\r\n"",{},2026-01-01\r\n,,\r\n', encoding="utf-8", newline="")
    found = read_file(Source(str(tmp_path), "csv"), tmp_path / "part", columns=["WORD", "at", "n"])
    assert [*found.table.column_names] == ["at", "n", "word"]
    assert found.table.select(["n", "word"]).to_pylist() == [{"n": None, "word": ""}, {"n": None, "word": None}]


def test_options(tmp_path: Path) -> None:
    (tmp_path / "part").write_text("at|word|n\n|'a|b'|NULL\n|NULL|1\n|'NULL'|2\n|\"|3\n")
    source = Source(str(tmp_path), "csv", {"delimiter": "|", "quote": "'", "null_value": "NULL"})
    rows = read_file(source, tmp_path / "part").table.select(["word", "n"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("a|b", None), (None, 1), ("NULL", 2), ('"', 3)]


@pytest.mark.parametrize(
    ("file_format", "options", "message"),
    [
        ("csv", {"delimeter": ";"}, "did you mean 'delimiter'"),
        ("csv", {"zzz": ";"}, "the options are delimiter"),
        ("json", {"header": "true"}, "no option 'header'"),
        ("csv", {"header": "yes"}, "'true' or 'false'"),
        ("csv", {"delimiter": "ab"}, "one character"),
        ("csv", {"delimiter": "a"}, "one character"),
        ("csv", {"quote": "\n"}, "one character"),
        ("csv", {"quote": ","}, "the same character"),
        ("jsn", {}, "did you mean 'json'"),
    ],
)
def test_wrong_options(file_format: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Source("x", file_format, options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b"word,n", "has no column 'at', the event time"),
        (b"at,n,n", "has 2 columns 'n'"),
        (b"at,WORD,Word", "has 2 columns 'word'"),
        (b"at,\xff", "its header is not valid UTF-8"),
        (b'at,"n', "its header has a quote that is not closed"),
    ],
)
def test_bad_headers(tmp_path: Path, header: bytes, problem: str) -> None:
    (tmp_path / "part").write_bytes(header + b"\n1,2,3\n")
    with pytest.raises(BadFile) as caught:
        read_file(Source(str(tmp_path), "csv"), tmp_path / "part", STREAM)
    assert caught.value.message == f"{tmp_path / 'part'}: {problem}"


def test_a_header_without_the_event_time_is_shown(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("at;n\n2026-01-01;1\n")
    with pytest.raises(BadFile, match="has no column 'at', the event time") as problem:
        read_file(Source(str(tmp_path), "csv"), tmp_path / "rows.csv")
    assert problem.value.detail == "its first line is 'at;n'; the options delimiter and header say how it is read"
