"""Columns of files that nobody declared."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.inputs import Source, one_file
from headrace.inputs.inference import infer_schema
from headrace.model.errors import DataError


def inferred(folder: Path, file_format: str, *texts: str, **options: str) -> dict[str, str]:
    """The columns of files with these texts, with their types in short."""
    paths = [folder / f"{number}.{file_format}" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    schema = infer_schema(Source(str(folder), file_format, options), [one_file(str(path)) for path in paths])
    return {field.name: str(field.type) for field in schema}


def test_csv(tmp_path: Path) -> None:
    """What is not a number, a truth value or a time is text; a line of another length does not count."""
    text = "a,b,c,d,e,f,g\n1,1.5,x,true,2026-01-01 09:00:00,2026-01-01,09:00\n2,2,,false,2026-01-01 09:00:01.5,,\nend\n"
    assert inferred(tmp_path, "csv", text) == {
        "a": "int64",
        "b": "double",
        "c": "string",
        "d": "bool",
        "e": "timestamp[ns]",
        "f": "timestamp[us]",
        "g": "string",
    }
    assert inferred(tmp_path, "csv", "1;-\n2;3\n", delimiter=";", header="false", null_value="-") == {
        "f0": "int64",
        "f1": "int64",
    }


def test_json_lines(tmp_path: Path) -> None:
    """Times keep their zone, or have none; a column that is always null is text."""
    lines = (
        '{"a": 1, "b": "2026-01-01T09:00:00Z", "c": "2026-01-01T09:00:00.123456", "d": null, "e": "x", "f": [1]}\n'
        '{"a": 2.5, "b": "2026-01-01T09:00:00.5Z", "c": "2026-01-01 09:00:00", "d": null, "e": "2026-01-01", "f": []}\n'
    )
    assert inferred(tmp_path, "json", lines) == {
        "a": "double",
        "b": "timestamp[us, tz=UTC]",
        "c": "timestamp[us]",
        "d": "string",
        "e": "string",
        "f": "list<item: int64>",
    }


def test_several_files_are_united(tmp_path: Path) -> None:
    assert inferred(tmp_path, "csv", "a,b\n1,x\n", "a,c\n1.5,2\n") == {"a": "double", "b": "string", "c": "int64"}
    with pytest.raises(DataError, match="columns of different types") as problem:
        inferred(tmp_path, "csv", "a\n1\n", "a\nx\n")
    assert "CREATE STREAM" in str(problem.value)


def test_parquet_is_as_it_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    pq.write_table(pa.table({"n": pa.array([1], pa.int32())}), path)
    assert infer_schema(Source(str(tmp_path)), [one_file(str(path))]) == pa.schema([("n", pa.int32())])


def test_a_json_array_is_explained(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="can't be inferred") as problem:
        inferred(tmp_path, "json", '[{"a": 1}]\n')
    assert "one JSON object per line" in str(problem.value)
