"""Files that are damaged, and files that change after they were read: counted, named, and nothing else is lost."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from msgspec import convert, to_builtins
from msgspec.structs import replace

from headrace.engine.progress import progress_of
from headrace.engine.registry import ask
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input, Stepper
from headrace.inputs import BadFile, Source, read_table
from headrace.model.errors import HeadraceError, printable
from headrace.sql import format_stream, parse_query, parse_script
from headrace.storage.directory import journal_name, prepare
from headrace.storage.disk import read_record, to_record
from headrace.storage.records import Commit, Journal, LeftOut, StreamTotals
from headrace.storage.seen_files import LISTED_EVERY, Look, SeenFiles, list_name
from tests.engine.file_stepper import FileStepper
from tests.engine.files import CATALOG, RESULTS, batches, make_stepper, write_input

COUNT = "SELECT count(*) AS n FROM r [RANGE '1 s']"


def quarantining(root: Path, on_bad_file: str = "quarantine", sql: str = COUNT) -> Stepper:
    """All files in one step."""
    directory = prepare(root / "state", format_stream(CATALOG.streams[0]))
    source = Source(str(root / "input"))
    setting = StreamSetting(uuid4().hex, str(directory.root), CATALOG, "r", source, on_bad_file)
    stepper = FileStepper(setting, InProcess(2), RESULTS(root), reducers=2)
    if stepper.commit is None:
        stepper.changes.register({"n": (sql, parse_query(sql, CATALOG))})
    return stepper


def damage(path: Path, column: str) -> None:
    """The pages of a column; the footer, which the driver looks at, stays whole."""
    metadata = pq.read_metadata(path)
    place = metadata.schema.names.index(column)
    chunk = metadata.row_group(0).column(place)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(path.read_bytes())
    data[begin : begin + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number, rows in enumerate(batches(2)):
        write_input(tmp_path / "input", rows, number)
    return tmp_path


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "headrace")
    return caplog


def answered(root: Path) -> int:
    """Rows of the input that are in some window of a second."""
    found = [pq.read_table(path) for path in (root / "results" / "n").glob("*.parquet")]
    return sum(sum(table["n"].to_pylist()) for table in found)


# Damaged files


def test_a_damaged_file_among_the_first_is_left_out_of_the_sample_too(
    root: Path, heard: pytest.LogCaptureFixture
) -> None:
    bad = root / "input" / "part-0001.parquet"
    damage(bad, "t")
    stepper = quarantining(root)
    commit = stepper.step(Input(ended=True))
    stepper.close()
    assert commit is not None
    assert commit.totals.quarantined == 1
    assert commit.totals.rows == answered(root) == 12
    (left_out,) = commit.quarantined
    assert left_out.path == str(bad)
    assert left_out.reason.startswith("is damaged: ")
    assert heard.messages == [f"left out: {bad}: {printable(left_out.reason)}"]


def test_damage_in_a_column_that_no_query_names_costs_no_row(root: Path) -> None:
    """The sample wants all columns, the step only those that are named: a step without a plan would lose its rows."""
    for number in range(2):
        damage(root / "input" / f"part-{number:04}.parquet", "x")
    stepper = quarantining(root)
    commit = stepper.step(Input(ended=True))
    stepper.close()
    assert commit is not None
    assert commit.plan is not None
    assert commit.totals == StreamTotals(rows=24, admitted=24)
    assert answered(root) == 24


def test_a_damaged_file_stops_the_run_unless_told_otherwise(root: Path) -> None:
    damage(root / "input" / "part-0001.parquet", "t")
    stepper = quarantining(root, "stop")
    with pytest.raises(BadFile, match="is damaged") as problem:
        stepper.step(Input(ended=True))
    stepper.close()
    assert 'on_bad_file = "quarantine"' in (problem.value.hint or "")


def test_a_file_without_a_footer_is_named_with_its_reason(root: Path, heard: pytest.LogCaptureFixture) -> None:
    half = root / "input" / "half.parquet"
    half.write_bytes((root / "input" / "part-0001.parquet").read_bytes()[:100])
    stepper = quarantining(root)
    stepper.step(Input())
    stepper.close()
    journal = stepper.directory.journal(1)
    assert journal is not None
    assert [file.path for file in journal.bad_files] == [str(half)]
    assert [message.split(": ")[:3] for message in heard.messages] == [["left out", str(half), "is damaged"]]


def test_journals_that_had_only_paths_are_still_read(root: Path) -> None:
    stepper = make_stepper(root)
    stepper.step(Input())
    stepper.close()
    path = stepper.directory.root / journal_name(1)
    document = read_record(path, dict)
    del document["changed"]
    path.write_bytes(to_record({**document, "quarantined": ["/x"]}))
    journal = stepper.directory.journal(1)
    assert journal is not None
    assert journal.bad_files == (LeftOut("/x"),)


# Files that change


def grow(path: Path) -> None:
    write_input(path.parent, batches(1, seed=9)[0], 7)
    os.replace(path.parent / "part-0007.parquet", path)


def test_a_file_that_changes_after_it_was_read_is_counted_and_told_once(
    root: Path, heard: pytest.LogCaptureFixture
) -> None:
    stepper = quarantining(root)
    stepper.step(Input())
    changed = root / "input" / "part-0000.parquet"
    grow(changed)
    commit = stepper.step(Input())
    assert commit is not None
    assert commit.totals == StreamTotals(rows=24, changed=1, admitted=24)
    assert heard.messages == [f"changed after it was read: {changed}; its new rows are not read"]
    grow(changed)
    os.utime(changed, ns=(8, 8))
    assert stepper.step(Input()) is None
    stepper.close()
    again = quarantining(root)
    assert again.step(Input()) is None, "a restart knows it too"
    again.close()
    assert len(heard.messages) == 1


DAY_US = 86_400_000_000


def steps_at(stepper: Stepper, first_us: int, count: int) -> None:
    """Steps that commit, each with one small file of its own."""
    for number in range(count):
        time_us = first_us + number * 1_000
        write_input(Path(stepper.setting.source.path), [], 1_000_000 + time_us)  # type: ignore[union-attr]
        assert stepper.step(Input(time_us)) is not None


@pytest.mark.parametrize("moved", ["one by one", "the directory"])
def test_files_that_vanish_and_come_back_are_not_read_again(root: Path, moved: str) -> None:
    """As when a disk is unmounted for a while: names that were read are remembered through lists of all files."""
    stepper = quarantining(root)
    stepper.step(Input(0))
    away = root / "away"
    if moved == "the directory":
        (root / "input").rename(away)
        (root / "input").mkdir()
    else:
        away.mkdir()
        for path in list((root / "input").iterdir()):
            path.rename(away / path.name)
    steps_at(stepper, 1, 2 * LISTED_EVERY)
    assert stepper.seen.listed >= LISTED_EVERY
    for path in away.iterdir():
        path.rename(root / "input" / path.name)
    steps_at(stepper, DAY_US, 2)
    stepper.close()
    again = quarantining(root)
    steps_at(again, 2 * DAY_US, 1)
    assert again.commit is not None
    assert again.commit.totals.rows == 24
    again.close()


def test_absent_names_are_forgotten_after_a_week_and_the_oldest_beyond_a_number(
    root: Path, heard: pytest.LogCaptureFixture
) -> None:
    stepper = quarantining(root)
    stepper.step(Input(0))
    seen, (first, second) = stepper.seen, sorted(stepper.seen.looks)
    seen.write(64, {second}, DAY_US)
    seen.write(128, {second}, 7 * DAY_US)
    assert first in seen.looks
    seen.write(192, {second}, 8 * DAY_US)
    assert first not in seen.looks
    assert second in seen.looks
    seen.looks |= {f"/a{number}": None for number in range(5)}
    seen.write(256, {second, "/a4"}, 8 * DAY_US)
    with patch("headrace.storage.seen_files.MAX_ABSENT", 2):
        seen.write(320, {second}, 8 * DAY_US + 1)
    assert set(seen.looks) == {second, "/a3", "/a4"}
    assert any("3 names of files that are gone were forgotten early" in message for message in heard.messages)
    stepper.close()


def test_a_directory_that_is_gone_or_on_another_device_stops_the_step(root: Path) -> None:
    stepper = quarantining(root)
    stepper.step(Input(0))
    (root / "input").rename(root / "away")
    with pytest.raises(HeadraceError, match="does not exist"):
        stepper.step(Input(1))
    (root / "away").rename(root / "input")
    with (
        patch("headrace.storage.seen_files.device_of", lambda folder: -1),
        pytest.raises(HeadraceError, match="device"),
    ):
        stepper.step(Input(1))
    write_input(root / "input", batches(1)[0], 9)
    commit = stepper.step(Input(1))
    assert commit is not None
    assert commit.totals.rows == 36
    stepper.close()


def test_the_list_of_files_keeps_what_they_looked_like(root: Path) -> None:
    stepper = quarantining(root)
    stepper.step(Input())
    journal = stepper.directory.journal(1)
    assert journal is not None
    first, second = journal.files
    gone = replace(first, path="/gone")
    stepper.seen.add(replace(journal, files=(first, second, gone), changed=(second.path,)))
    stepper.seen.write(LISTED_EVERY, {first.path, second.path}, 5)
    stepper.close()
    commit = Commit(LISTED_EVERY, 1, "", 0, None, {}, inputs=LISTED_EVERY)
    seen = SeenFiles(stepper.directory, commit)
    looks = {
        first.path: Look(first.size, first.modified_ns),
        second.path: None,
        "/gone": Look(first.size, first.modified_ns),
    }
    assert (seen.looks, seen.absent_us) == (looks, {"/gone": 5})
    assert seen.list_changed([replace(first, size=1), replace(second, size=1)]) == [first.path]
    stepper.directory.store.put(list_name(LISTED_EVERY), to_record([first.path]))
    old = SeenFiles(stepper.directory, commit)
    assert old.new([first, second]) == [second], "a list of an earlier version has nothing but paths"
    assert old.list_changed([replace(first, size=1)]) == []


# Rejected rows


def test_rejected_rows_tell_their_file_and_addresses_are_texts(tmp_path: Path) -> None:
    declaration = "CREATE STREAM f (t TIMESTAMP, a ADDRESS) EVENT TIME t;"
    catalog = parse_script(declaration).catalog
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "rows.csv").write_text("t,a\n2026-01-01 00:00:00,10.0.0.1\n,10.0.0.2\n,2001:db8::1\nx,y\n")
    directory = prepare(tmp_path / "state", declaration)
    source = Source(str(tmp_path / "input"), "csv")
    setting = StreamSetting(uuid4().hex, str(directory.root), catalog, "f", source)
    stepper = FileStepper(setting, InProcess(), RESULTS(tmp_path))
    sql = "SELECT a, count(*) AS n FROM f [RANGE '1 s'] GROUP BY a"
    stepper.changes.register({"n": (sql, parse_query(sql, catalog))})
    stepper.step(Input())
    stepper.close()
    (file,) = (tmp_path / "state" / "rejected").glob("*.parquet")
    rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    assert {row["rejected_file"] for row in rows} == {str(tmp_path / "input" / "rows.csv")}
    assert {(row["a"], row["raw"]) for row in rows} == {("10.0.0.2", None), ("2001:db8::1", None), (None, "x,y")}


# Windows


def test_the_number_of_windows_never_falls(root: Path) -> None:
    stepper = make_stepper(root)
    for _ in range(2):
        stepper.step(Input())
    ask(stepper.directory, "drop", "groups")
    ask(stepper.directory, "drop", "counts")
    totals = []
    while (commit := stepper.step(Input(ended=True))) is not None:
        totals.append(progress_of("r", commit, None, 0, 0.0, 0.0).windows)
    last = stepper.commit
    stepper.close()
    assert last is not None
    assert list(last.queries) == ["best"]
    assert totals == sorted(totals)
    assert totals[-1] > last.queries["best"].windows


def test_errors_of_tables_do_not_speak_of_quarantine(tmp_path: Path) -> None:
    table = parse_script("CREATE TABLE c (k STRING);").catalog.tables[0]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(HeadraceError) as problem:
        read_table(Source(str(tmp_path)), table)
    assert problem.value.hint == "repair the file or move it away"


def test_a_journal_names_all_that_it_left_out() -> None:
    journal = Journal(1, None, None, None, 0, None, {}, quarantined=(LeftOut("/x", "why"),), changed=("/y",))
    document = {**to_builtins(journal), "quarantined": [{"path": "/x", "reason": "why"}]}
    assert convert(document, Journal) == journal
