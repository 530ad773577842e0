"""Which files are listed, in which order, and the values that folders give."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.inputs import BadFile, Source, cut, list_files, read_table
from headrace.inputs.file_list import folder_values
from headrace.model.errors import UsageError
from headrace.model.schema import Table
from headrace.model.types import BIGINT
from tests.inputs.samples import COLUMNS, STREAM, file_at, read_file, write

ROW = (0, None, 1, None, None, None, None, None)


def make(root: Path, name: str, time_ns: int = 0, content: str = "x") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, ns=(time_ns, time_ns))
    return path


def listed(root: Path) -> list[str]:
    return [os.path.relpath(file.path, root) for file in list_files(Source(str(root)))]


@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from(["a", "b", "c/a", "c/b", "d/e/f"]), st.integers(0, 3), min_size=1))
def test_oldest_first(tmp_path_factory: pytest.TempPathFactory, times: dict[str, int]) -> None:
    root = tmp_path_factory.mktemp("files")
    for name, time_ns in times.items():
        make(root, name, time_ns)
    assert listed(root) == sorted(times, key=lambda name: (times[name], str(root / name)))


def test_what_is_skipped(tmp_path: Path) -> None:
    for name in ("a", ".hidden", "_SUCCESS", "_log/a", ".git/a", "_k=1/a", "day=_1/a", "k=1/_a", "k=1/b"):
        make(tmp_path, name)
    make(tmp_path, "empty", content="")
    os.mkfifo(tmp_path / "pipe")
    assert listed(tmp_path) == ["a", "day=_1/a", "k=1/b"]


def test_links(tmp_path: Path) -> None:
    root = tmp_path / "root"
    make(tmp_path, "outside/secret")
    make(tmp_path, "root2/secret")
    make(root, "a")
    make(root, ".data/b")
    (root / "to-a").symlink_to(root / "a")
    (root / "to-b").symlink_to(root / ".data/b")
    (root / "again-to-b").symlink_to(root / ".data/b")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "out-file").symlink_to(tmp_path / "outside/secret")
    (root / "beside").symlink_to(tmp_path / "root2/secret")
    (root / "loop").symlink_to(root)
    (root / "nowhere").symlink_to(root / "nothing")
    assert listed(root) == ["a", "again-to-b"]
    (tmp_path / "linked-root").symlink_to(root)
    assert listed(tmp_path / "linked-root") == ["a", "again-to-b"]


@pytest.mark.parametrize(("name", "problem"), [("nothing", "does not exist"), ("file", "is not a directory")])
def test_no_directory(tmp_path: Path, name: str, problem: str) -> None:
    make(tmp_path, "file")
    with pytest.raises(UsageError, match=problem):
        list_files(Source(str(tmp_path / name)))


def test_listing_gives_size_and_time(tmp_path: Path) -> None:
    path = make(tmp_path, "é x", 7, "four")
    assert list_files(Source(str(tmp_path))) == [file_at(path)]
    assert (file_at(path).size, file_at(path).modified_ns) == (4, 7)


# Folders


@given(st.dictionaries(st.sampled_from("abc"), st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)))
def test_values_of_folders_are_decoded(values: dict[str, str]) -> None:
    folders = [f"{key}={quote(value, safe='')}" for key, value in values.items()]
    path = "/".join(["/no=1/root", *folders, "x=y"])
    assert folder_values(Source("/no=1/root"), path) == values


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
def test_folders_give_columns_that_the_file_lacks(tmp_path: Path, file_format: str) -> None:
    # the file has n, which wins; the day is the event time of a file that has none
    folders = tmp_path / "N=5" / "word=a%2Fb é" / "host=__HIVE_DEFAULT_PARTITION__" / "at=2026-01-01" / "other=x"
    folders.mkdir(parents=True)
    if file_format == "parquet":
        pq.write_table(pa.table({"n": [1, 2]}), folders / "part")
    else:
        (folders / "part").write_text("n,y\n1,\n2,\n" if file_format == "csv" else '{"n": 1}\n{"n": 2}\n')
    found = read_file(Source(str(tmp_path), file_format), folders / "part")
    assert found.table.select(["n", "word", "host"]).to_pylist() == [
        {"n": 1, "word": "a/b é", "host": None},
        {"n": 2, "word": "a/b é", "host": None},
    ]
    assert {str(time) for time in found.table["at"].to_pylist()} == {"2026-01-01 00:00:00+00:00"}


@pytest.mark.parametrize("folder", ["word=%FF", "x=one"])
@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_bad_folders(tmp_path: Path, file_format: str, folder: str) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "part").write_text("at\n\n" if file_format == "csv" else "{}")
    with pytest.raises(BadFile, match="folder"):
        cut(Source(str(tmp_path), file_format), file_at(tmp_path / folder / "part"), STREAM)


def test_a_bad_folder_of_a_column_that_the_file_has_does_not_matter(tmp_path: Path) -> None:
    assert STREAM.columns[2].type == BIGINT
    (tmp_path / "n=one").mkdir()
    write(tmp_path / "n=one" / "part", [ROW], "parquet")
    assert read_file(Source(str(tmp_path)), tmp_path / "n=one" / "part").table["n"].to_pylist() == [1]


# Static tables and errors


def test_bad_rows_of_static_tables_are_errors(tmp_path: Path) -> None:
    (tmp_path / "part").write_text("n\nx\n")
    with pytest.raises(BadFile, match="part: has a row that can't be read: column n") as caught:
        read_table(Source(str(tmp_path), "csv"), Table("t", COLUMNS))
    assert caught.value.detail == "x"


def test_a_static_table_without_files(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no files of t"):
        read_table(Source(str(tmp_path), "csv"), Table("t", COLUMNS))


def test_errors_and_values_can_be_sent_to_other_processes() -> None:
    error = pickle.loads(pickle.dumps(BadFile("/a", "is damaged", "why", "mend it")))  # noqa: S301
    assert (error.code, str(error)) == ("bad-file", "error[bad-file]: /a: is damaged\n  = why\nhint: mend it")
    source = Source("/a", "csv", {"delimiter": ";"})
    assert pickle.loads(pickle.dumps(source)) == source  # noqa: S301
    assert hash(source) == hash(Source("/a", "csv"))
