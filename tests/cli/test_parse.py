"""`headrace parse`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine

STREAM = "CREATE STREAM S (ts TIMESTAMP, k STRING, v BIGINT) EVENT TIME ts;\n"


def written(folder: Path, text: str, name: str = "script.sql") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_canonical_output_is_a_script_that_prints_itself(headrace: CommandLine, tmp_path: Path) -> None:
    script = (
        STREAM + "CREATE QUERY `a` AS SELECT sum(V) FROM s [RANGE 60] WHERE 5 < v; SELECT count(*) FROM S [RANGE 60];"
    )
    first = headrace("parse", written(tmp_path, script))
    assert first.status == 0
    assert "CREATE QUERY a AS SELECT window_start, window_end, sum(v) AS sum_1 FROM S" in first.out
    assert "CREATE QUERY q2 AS" in first.out
    again = headrace("parse", written(tmp_path, first.out))
    assert again.out == first.out
    assert "accepted; queries: 2 (2 different), streams: 1, tables: 0" in again.err


def test_standard_input(headrace: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (STREAM + "SELECT count(*) FROM S [RANGE 60]").encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert headrace("parse", "-").status == 0


def test_every_mistake_is_reported_and_good_queries_still_print(headrace: CommandLine, tmp_path: Path) -> None:
    script = STREAM + (
        "CREATE QUERY bad AS SELECT sum(w) FROM S [RANGE 60];\n"
        "CREATE QUERY good AS SELECT sum(v) FROM S [RANGE 60];\n"
        "CREATE QUERY worse AS SELECT now() FROM S [RANGE 60];\n"
    )
    outcome = headrace("parse", written(tmp_path, script))
    assert outcome.status == 1
    assert "CREATE QUERY good" in outcome.out
    assert "no column 'w'" in outcome.err
    assert "now()" in outcome.err
    assert "2 mistakes" in outcome.err
    assert "Traceback" not in outcome.err


def test_json_describes_each_query(headrace: CommandLine, tmp_path: Path) -> None:
    one = STREAM + "SELECT k, count(*) AS n FROM S GROUP BY window(ts, '15 minutes', '5 minutes'), k;"
    two = STREAM + "SELECT K, count(*) AS n FROM S [RANGE '15 min' SLIDE '5 min'] GROUP BY K;"
    first, second = (json.loads(headrace("parse", "--json", written(tmp_path, text)).out) for text in (one, two))
    assert first == second
    assert first["window"] == "[RANGE '15 min' SLIDE '5 min']"
    assert first["columns"] == {"window_start": "TIMESTAMP", "window_end": "TIMESTAMP", "k": "STRING", "n": "BIGINT"}


def test_schema_and_functions_from_other_files(headrace: CommandLine, tmp_path: Path) -> None:
    schema = written(tmp_path, STREAM, "schema.sql")
    functions = written(
        tmp_path, "import headrace\n@headrace.user_function\ndef big(v: int) -> bool:\n    return v > 9\n", "f.py"
    )
    script = written(tmp_path, "SELECT count(*) FROM S [RANGE 60] WHERE BIG(v)")
    outcome = headrace("parse", script, "--schema", schema, "--functions", functions)
    assert outcome.status == 0, outcome.err
    assert "WHERE big(v)" in outcome.out


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"SELECT 'open", "not closed"),
        (b"DROP TABLE x", "can't begin with 'DROP'"),
    ],
)
def test_bad_files_give_one_clear_error(headrace: CommandLine, tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "bad.sql"
    path.write_bytes(content)
    outcome = headrace("parse", path)
    assert outcome.status == 1
    assert expected in outcome.err


def test_missing_file(headrace: CommandLine, tmp_path: Path) -> None:
    outcome = headrace("parse", tmp_path / "nothing.sql")
    assert (outcome.status, outcome.out) == (1, "")
    assert "can't read" in outcome.err


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("raise RuntimeError('no')", "RuntimeError: no"),
        ("x = 1", "defines no user functions"),
        ("import headrace\n@headrace.user_function\ndef f(x): ...", "hint the arguments"),
    ],
)
def test_bad_function_files(headrace: CommandLine, tmp_path: Path, source: str, expected: str) -> None:
    script = written(tmp_path, STREAM)
    outcome = headrace("parse", script, "--functions", written(tmp_path, source, "f.py"))
    assert outcome.status == 1
    assert expected in outcome.err
