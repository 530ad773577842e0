"""Directories of files as they are in the wild: files vanish, grow, are replaced, half written; schemas change.

Whatever happens, the results are those of the reference over the rows that were accepted, and each row that was read
is in one count: bad, without a time, late, or in a window.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input
from headrace.model.time import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US, format_timestamp
from headrace.model.types import MAX_BIGINT, MIN_BIGINT
from headrace.reference import Interpreter, StepResult
from headrace.sql import parse_query
from tests.engine.stories import without_sync
from tests.faults.input_runs import FileRun

DECLARATION = (
    "CREATE STREAM s (t TIMESTAMP, k STRING, v BIGINT, x DOUBLE, d DECIMAL(12, 3)) EVENT TIME t LATENESS '5 s';"
)
QUERIES = {
    "all": "SELECT count(*) AS n, count(v) AS vs, sum(v) AS v, min(x) AS low, max(x) AS high, sum(d) AS d FROM s "
    "[RANGE '10 s' SLIDE '5 s']",
    "groups": "SELECT k, count(*) AS n, max(v) AS v, count(DISTINCT d) AS d FROM s [RANGE '20 s'] GROUP BY k",
}
TYPES = {
    "t": pa.timestamp("us", "UTC"),
    "k": pa.string(),
    "v": pa.int64(),
    "x": pa.float64(),
    "d": pa.decimal128(12, 3),
}
Row = dict[str, Any]


@dataclass
class Expected:
    """What a run should make of a file."""

    accepted: list[Row] = field(default_factory=list)
    bad: int = 0
    is_quarantined: bool = False


# Files


def draw_rows(draw: random.Random, second: int, count: int = 12) -> list[Row]:
    """Around a time, some late and some without one, with NULL in every column."""
    return [
        {
            "t": draw.choices([None, second * 1_000_000 + draw.randrange(-8_000_000, 8_000_000)], (1, 9))[0],
            "k": draw.choice(["a", "b c", "ü", None]),
            "v": draw.choice([None, draw.randrange(-100, 100)]),
            "x": draw.choice([None, draw.randrange(-100, 100) / 4]),
            "d": draw.choice([None, Decimal(draw.randrange(-9999, 9999)).scaleb(-3)]),
        }
        for _ in range(count)
    ]


def text_of(name: str, value: Any) -> Any:
    if value is None:
        return None
    return format_timestamp(value) if name == "t" else str(value) if name == "d" else value


def content(rows: list[Row], file_format: str, types: dict[str, pa.DataType] | None = None) -> bytes:
    """A file of the rows; `types` names its columns, and for Parquet their types."""
    chosen = types or TYPES
    if file_format == "parquet":
        arrays = [pa.array([row[name] for row in rows], data_type) for name, data_type in chosen.items()]
        sink = io.BytesIO()
        pq.write_table(pa.table(arrays, names=list(chosen)), sink)
        return sink.getvalue()
    plain = [{name: text_of(name, row[name]) for name in chosen} for row in rows]
    if file_format == "json":
        return "".join(json.dumps(row) + "\n" for row in plain).encode()
    text = io.StringIO()
    writer = csv.DictWriter(text, list(chosen), lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain)
    return text.getvalue().encode()


# What may be wrong with a file: its content and what is expected of it


def whole(draw: random.Random, rows: list[Row], file_format: str) -> tuple[bytes, Expected]:
    return content(rows, file_format), Expected(rows)


def half_written(draw: random.Random, rows: list[Row], file_format: str) -> tuple[bytes, Expected]:
    """Parquet without its footer is no file; of text the last line, of which five characters are there, is bad."""
    data = content(rows, file_format)
    if file_format == "parquet":
        return data[: draw.randrange(5, len(data) - 1)], Expected(is_quarantined=True)
    begun = b'{"t":' if file_format == "json" else b"2026-"
    return b"".join(data.splitlines(keepends=True)[:-1]) + begun, Expected(rows[:-1], bad=1)


def column_added(draw: random.Random, rows: list[Row], file_format: str) -> tuple[bytes, Expected]:
    wider = [{**row, "new.column": "é"} for row in rows]
    return content(wider, file_format, {"new.column": pa.string(), **TYPES}), Expected(rows)


def column_removed(draw: random.Random, rows: list[Row], file_format: str) -> tuple[bytes, Expected]:
    name = draw.choice(["k", "v", "x", "d"])
    narrower = {each: kind for each, kind in TYPES.items() if each != name}
    return content(rows, file_format, narrower), Expected([{**row, name: None} for row in rows])


def event_time_removed(draw: random.Random, rows: list[Row], file_format: str) -> tuple[bytes, Expected]:
    """A file with a header must have it; a line of JSON without one is a row without a time."""
    data = content(rows, file_format, {name: kind for name, kind in TYPES.items() if name != "t"})
    untimed = [{**row, "t": None} for row in rows]
    return data, Expected(untimed) if file_format == "json" else Expected(is_quarantined=True)


def column_renamed(draw: random.Random, rows: list[Row], file_format: str) -> tuple[bytes, Expected]:
    """In another case it is the same column; under another name it is missing."""
    if draw.random() < 0.5:
        upper = {name.upper(): kind for name, kind in TYPES.items()}
        spelled = [{name.upper(): text for name, text in row.items()} for row in rows]
        if file_format == "parquet":
            return content(spelled, file_format, upper), Expected(rows)
        head, newline, rest = content(rows, file_format).partition(b"\n")
        if file_format == "json":
            return (head + newline + rest).replace(b'"v":', b'"V":'), Expected(rows)
        return head.upper() + newline + rest, Expected(rows)
    moved = {"w" if name == "v" else name: kind for name, kind in TYPES.items()}
    return content([{**row, "w": row["v"]} for row in rows], file_format, moved), Expected(
        [{**row, "v": None} for row in rows]
    )


def type_changed(draw: random.Random, rows: list[Row], file_format: str) -> tuple[bytes, Expected]:
    """Another type that fits, or whose values fit but one."""
    if file_format != "parquet":
        return whole(draw, rows, file_format)
    kind = draw.choice([pa.int16(), pa.float64(), pa.float32(), pa.decimal128(19, 1)])
    types = {**TYPES, "v": kind}
    if pa.types.is_integer(kind):
        return content(rows, file_format, types), Expected(rows)
    number = Decimal if pa.types.is_decimal(kind) else float
    written = [{**row, "v": None if row["v"] is None else number(row["v"])} for row in rows]
    written[0]["v"] = number("0.5")
    return content(written, file_format, types), Expected(rows[1:], bad=1)


def type_refused(draw: random.Random, rows: list[Row], file_format: str) -> tuple[bytes, Expected]:
    """A type that never fits; text has none, so there its values are bad."""
    words = [{**row, "v": "seven"} for row in rows]
    if file_format == "parquet":
        return content(words, file_format, {**TYPES, "v": pa.string()}), Expected(is_quarantined=True)
    return content(words, file_format), Expected(bad=len(rows))


def not_utf8(draw: random.Random, rows: list[Row], file_format: str) -> tuple[bytes, Expected]:
    """Text: the lines with the word are bad. A Parquet file that says that bytes are text is damaged."""
    named = [{**row, "k": "wörd" if place == 0 else "a"} for place, row in enumerate(rows)]
    data = content(named, "parquet" if file_format == "parquet" else file_format)
    if file_format == "json":
        data = data.replace(b"w\\u00f6rd", b"w\xffrd")
        return data, Expected(named[1:], 1)
    if file_format == "csv":
        return data.replace("wörd".encode(), b"w\xffrd"), Expected(named[1:], 1)
    words = pa.array([b"w\xff"] * len(rows))
    broken = pa.Array.from_buffers(pa.string(), len(rows), words.buffers())
    table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()})
    sink = io.BytesIO()
    pq.write_table(table.set_column(1, "k", broken), sink)
    return sink.getvalue(), Expected(is_quarantined=True)


def nothing_but_null(draw: random.Random, rows: list[Row], file_format: str) -> tuple[bytes, Expected]:
    nulls = [dict.fromkeys(TYPES) for _ in rows]
    if file_format == "parquet":
        return content(nulls, file_format, dict.fromkeys(TYPES, pa.null())), Expected(nulls)
    return content(nulls, file_format), Expected(nulls)


def no_rows(draw: random.Random, rows: list[Row], file_format: str) -> tuple[bytes, Expected]:
    return content([], file_format), Expected()


KINDS: list[Callable[[random.Random, list[Row], str], tuple[bytes, Expected]]] = [
    whole,
    half_written,
    column_added,
    column_removed,
    event_time_removed,
    column_renamed,
    type_changed,
    type_refused,
    not_utf8,
    nothing_but_null,
    no_rows,
]


# A directory that changes while a run reads it


class Directory:
    """Writes files one after the other, each with a time of its own, and remembers what is expected of them."""

    def __init__(self, folder: Path, file_format: str, seed: int) -> None:
        self.folder = folder
        self.file_format = file_format
        self.draw = random.Random(seed)
        self.written = 0
        self.changed: set[Path] = set()
        self.readable: list[Path] = []

    def put(self, path: Path, data: bytes) -> None:
        self.written += 1
        path.write_bytes(data)
        os.utime(path, ns=(self.written * 10**9, self.written * 10**9))

    def add(self, kind: Callable[[random.Random, list[Row], str], tuple[bytes, Expected]], second: int) -> Expected:
        path = self.folder / f"part {self.written:05}.é"
        data, expected = kind(self.draw, draw_rows(self.draw, second), self.file_format)
        self.put(path, data)
        if data:
            self.readable.append(path)
        return expected

    def disturb(self) -> None:
        """What was read vanishes, is replaced, or grows: no row of it is read again."""
        if not self.readable:
            return
        path = self.readable.pop(self.draw.randrange(len(self.readable)))
        what = self.draw.choice(["vanish", "replace", "grow"])
        if what == "vanish":
            path.unlink()
            return
        more = content(draw_rows(self.draw, 0), self.file_format)
        self.put(path, more if what == "replace" else path.read_bytes() + more)
        self.changed.add(path)


def windows_of(results: Iterable[tuple[Any, ...]]) -> list[str]:
    return sorted(map(repr, results))


def check_answers(run: FileRun, answered: dict[str, list[tuple[Any, ...]]]) -> None:
    for name, rows in answered.items():
        assert windows_of(tuple(row.values()) for row in run.results(name)) == windows_of(rows), name


def answers_of(steps: Iterable[StepResult], names: Iterable[str]) -> dict[str, list[tuple[Any, ...]]]:
    answered: dict[str, list[tuple[Any, ...]]] = {name: [] for name in names}
    for result in (result for step in steps for result in step.results):
        answered[result.query] += result.rows
    return answered


def reference_of(run: FileRun) -> Interpreter:
    interpreter = Interpreter(run.catalog.streams[0])
    for name, sql in run.queries.items():
        interpreter.register(name, parse_query(sql, run.catalog))
    return interpreter


def check_directory(root: Path, file_format: str, seed: int, steps: int) -> None:
    run = FileRun.of(root, DECLARATION, QUERIES, file_format)
    directory, reference = Directory(root / "input", file_format, seed), reference_of(run)
    told, bad, quarantined = [], 0, 0
    with without_sync():
        stepper = run.stepper()
        try:
            for step in range(steps):
                kinds = directory.draw.choices(KINDS, k=directory.draw.randrange(1, 4))
                expected = [directory.add(kind, step * 6) for kind in kinds]
                stepper.step(Input())
                told.append(reference.batch([row for each in expected for row in each.accepted]))
                bad += sum(each.bad for each in expected)
                quarantined += sum(each.is_quarantined for each in expected)
                directory.disturb()
            while stepper.step(Input(ended=True)) is not None:
                pass
            commit = stepper.commit
        finally:
            stepper.close()
    assert commit is not None
    told.append(reference.end())
    totals, rows = commit.totals, sum(step.counts.rows for step in told)
    assert (totals.rows, totals.bad, totals.quarantined) == (rows + bad, bad, quarantined)
    assert totals.changed == len(directory.changed)
    assert totals.late == sum(step.counts.late for step in told)
    assert totals.dropped == sum(step.counts.dropped for step in told)
    check_answers(run, answers_of(told, QUERIES))


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
@pytest.mark.parametrize("seed", range(2))
def test_a_directory_that_changes(tmp_path: Path, file_format: str, seed: int) -> None:
    check_directory(tmp_path, file_format, seed, steps=8)


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
@pytest.mark.parametrize("seed", range(100, 112))
def test_a_directory_that_changes_for_long(tmp_path: Path, file_format: str, seed: int) -> None:
    check_directory(tmp_path, file_format, seed, steps=40)


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_file_of_each_kind(
    tmp_path: Path, kind: Callable[[random.Random, list[Row], str], tuple[bytes, Expected]], file_format: str
) -> None:
    run = FileRun.of(tmp_path, DECLARATION, QUERIES, file_format)
    expected = Directory(tmp_path / "input", file_format, seed=5).add(kind, 60)
    reference = reference_of(run)
    told = [reference.batch(expected.accepted), reference.end()]
    totals = run.to_the_end().totals
    assert (totals.rows, totals.bad) == (len(expected.accepted) + expected.bad, expected.bad)
    assert (totals.quarantined, totals.dropped) == (int(expected.is_quarantined), told[0].counts.dropped)
    check_answers(run, answers_of(told, QUERIES))


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
@pytest.mark.parametrize("is_gone", [True, False])
def test_a_file_that_vanishes_or_shrinks_while_a_step_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: str, is_gone: bool
) -> None:
    """It is left out as a whole, and named."""
    run = FileRun.of(tmp_path, DECLARATION, QUERIES, file_format)
    directory = Directory(tmp_path / "input", file_format, seed=9)
    kept, _ = directory.add(whole, 60), directory.add(whole, 60)
    victim = directory.readable[-1]
    run_tasks = InProcess.run

    def after_the_journal(*arguments: Any) -> Any:
        if is_gone:
            victim.unlink(missing_ok=True)
        elif victim.stat().st_size > 20:
            os.truncate(victim, 20)
        return run_tasks(*arguments)

    monkeypatch.setattr(InProcess, "run", after_the_journal)
    commits = run.steps_to_the_end()
    assert (commits[-1].totals.rows, commits[-1].totals.quarantined) == (len(kept.accepted), 1)
    assert [left.path for commit in commits for left in commit.quarantined] == [str(victim)]
    reference = reference_of(run)
    check_answers(run, answers_of([reference.batch(kept.accepted), reference.end()], QUERIES))


# Extremes


EXTREMES: dict[str, list[Any]] = {
    "t": [MIN_TIMESTAMP_US, MAX_TIMESTAMP_US, 0, -1, 1_700_000_000_000_000, None],
    "k": ["", " ", "a" * 100_000, "\N{SNOWMAN}\N{GRINNING FACE}", "NULL", 'quote"d', "NaN", None],
    "v": [MIN_BIGINT, MAX_BIGINT, 0, -1, None],
    "x": [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 5e-324, 1.7976931348623157e308, None],
    "d": [Decimal("999999999.999"), Decimal("-999999999.999"), Decimal("0.001"), Decimal("0.000"), None],
}
EXTREME_QUERIES = {
    name: f"SELECT {name} AS g, count(*) AS n, min(x) AS low, max(x) AS high, min(v) AS v, sum(d) AS d FROM s "
    f"[RANGE '36500 days' SLIDE '36500 days'] GROUP BY {name}"
    for name in ("k", "v", "x", "d")
} | {"sums": "SELECT count(*) AS n, sum(v) AS v, sum(v % 10) AS w FROM s [RANGE '36500 days']"}


def extreme_rows(draw: random.Random, count: int) -> list[Row]:
    every = [{**dict.fromkeys(TYPES), "t": 0, name: value} for name, values in EXTREMES.items() for value in values]
    mixed = [{name: draw.choice(values) for name, values in EXTREMES.items()} for _ in range(count)]
    return every + mixed


def quoted_csv(rows: list[Row]) -> bytes:
    """With quotes around words, since an empty word is NULL without them."""
    lines = [",".join(TYPES)]
    for row in rows:
        cells = {name: "" if value is None else str(text_of(name, value)) for name, value in row.items()}
        if row["k"] is not None:
            cells["k"] = '"' + row["k"].replace('"', '""') + '"'
        lines.append(",".join(cells[name] for name in TYPES))
    return ("\n".join(lines) + "\n").encode()


def plain(value: Any) -> Any:
    """NaN equals NaN, and -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
def test_extremes_of_every_type(tmp_path: Path, file_format: str) -> None:
    run = FileRun.of(tmp_path, DECLARATION, EXTREME_QUERIES, file_format, on_bad_file="stop")
    rows = extreme_rows(random.Random(11), 60)
    data = content(rows, file_format) if file_format != "csv" else quoted_csv(rows)
    (tmp_path / "input" / "part").write_bytes(data)
    totals = run.to_the_end().totals
    reference = reference_of(run)
    step = reference.batch(rows)
    assert (totals.rows, totals.bad, totals.dropped) == (len(rows), 0, step.counts.dropped)
    answered = answers_of([step, reference.end()], EXTREME_QUERIES)
    for name, theirs in answered.items():
        ours = [tuple(map(plain, row.values())) for row in run.results(name)]
        assert windows_of(ours) == windows_of(tuple(map(plain, row)) for row in theirs), name


@pytest.mark.slow
def test_ten_thousand_files(tmp_path: Path) -> None:
    run = FileRun.of(tmp_path, DECLARATION, QUERIES, "json")
    for number in range(10_000):
        line = f'{{"t": "{format_timestamp(number * 1_000)}", "v": 1}}\n' if number % 100 else "no row\n"
        (tmp_path / "input" / f"{number}").write_text(line)
    totals = run.to_the_end().totals
    assert (totals.rows, totals.bad, totals.late, totals.dropped) == (10_000, 100, 0, 0)
    assert sum(row["n"] for row in run.results("groups")) == 9_900
