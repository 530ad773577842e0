"""What each sink promises: files a reader never sees twice or half, and the others at least once, with the step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.engine.pipeline import Pipeline
from headrace.engine.sinks.console import Console
from headrace.engine.sinks.delivery import Delivery
from headrace.engine.sinks.file_formats import FORMATS
from headrace.engine.sinks.sinks import Memory, ResultFolder, make_sink
from headrace.engine.step.stepper import Input
from headrace.model.errors import UsageError
from tests.engine.files import QUERIES, batches, check_results, make_stepper, run_all, write_input
from tests.storage.test_recovery import child, with_input

STEPS = 50
KEYS = {"counts": 2, "groups": 3, "best": 3}
"""How many first columns tell a row of a query from all others."""


def look(results: Path) -> dict[str, int]:
    """Read all that can be seen, with pyarrow and with DuckDB: no row is there twice."""
    seen = {}
    for name, key in KEYS.items():
        files = sorted((results / name).glob("*.parquet"))
        rows = [tuple(row.values())[:key] for file in files for row in pq.read_table(file).to_pylist()]
        assert len(rows) == len(set(rows)), name
        seen[name] = len(rows)
        if files:
            pattern = str(results / name / "*.parquet")
            columns = "window_end" if key == 2 else "window_end, k"
            text = f"SELECT count(*), count(DISTINCT ({columns})) FROM read_parquet('{pattern}')"
            with duckdb.connect() as connection:
                ((there, distinct),) = connection.execute(text).fetchall()
            assert there == distinct >= len(rows)
    return seen


def test_a_reader_never_sees_a_window_twice(tmp_path: Path) -> None:
    """Fifty steps of a child, which is killed on the way."""
    root = with_input(tmp_path, STEPS)
    running, looks, deaths = child("tests.engine.files", str(root)), 0, 0
    while running.poll() is None:
        look(root / "results")
        looks += 1
        if deaths == 0 and len(list((root / "state").glob("commits/0*.json"))) > STEPS // 3:
            running.kill()
            running.wait()
            running, deaths = child("tests.engine.files", str(root)), 1
    assert (running.returncode, deaths) == (0, 1)
    assert looks > 2
    look(root / "results")
    check_results(root, STEPS)


def started(root: Path, sinks: list[Any]) -> Pipeline:
    stepper = make_stepper(root)
    delivery = Delivery(stepper.directory, [], sinks, stepper.commit)
    return Pipeline(stepper, None, delivery, 0, lambda stepper: stepper.number)


def test_others_are_handed_committed_steps_and_the_last_one_again_after_a_crash(tmp_path: Path) -> None:
    root = with_input(tmp_path, 6)
    told: list[tuple[str, int, int]] = []
    memory = Memory()
    callback = make_sink("callback", {"function": lambda query, step, rows: told.append((query, step, rows.num_rows))})
    with patch("os.fsync"):
        pipeline = started(root, [memory, callback])
        while pipeline.step(Input()) is not None:
            pass
        pipeline.delivery.drain()
        pipeline.close()
        known = list(told)
        assert known
        assert {query: table.num_rows for query in QUERIES if (table := memory.table(query))} == look(root / "results")
        last = max(step for _, step, _ in known)
        pipeline = started(root, [memory, callback])
        pipeline.delivery.drain()
        pipeline.close()
    assert last
    assert told == known, "a callback has a cursor in the state"
    assert {query: table.num_rows for query in QUERIES if (table := memory.table(query))} == look(root / "results")


def test_json_lines(tmp_path: Path) -> None:
    root = with_input(tmp_path, 3)
    folders = (ResultFolder(str(root / "results"), "parquet"), ResultFolder(str(root / "lines"), "json"))
    with patch("os.fsync"), patch("tests.engine.files.RESULTS", lambda _: folders):
        run_all(root)
    for file in (root / "results").rglob("*.parquet"):
        rows = pq.read_table(file).to_pylist()
        name = root / "lines" / file.parent.name / f"{file.stem}.json"
        lines = [json.loads(line) for line in name.read_text().splitlines()]
        assert [line["window_end"] for line in lines] == [row["window_end"].isoformat() for row in rows]
        assert [set(line) for line in lines] == [set(row) for row in rows]


def test_values_as_json() -> None:
    table = pa.table({"d": pa.array([None, 1], pa.decimal128(5, 2)), "s": ["\u00e9", None], "x": [1.5, None]})
    assert FORMATS["json"](table).decode().splitlines() == [
        '{"d": null, "s": "\u00e9", "x": 1.5}',
        '{"d": "1.00", "s": null, "x": null}',
    ]


def test_the_console_does_not_fold_times(capsys: pytest.CaptureFixture[str]) -> None:
    time = pa.array([0], pa.timestamp("us", "UTC"))
    words = {f"word{place}": ["long enough to be folded"] for place in range(4)}
    Console(1)("a", 1, pa.table({"window_start": time, "window_end": time, **words}))
    assert capsys.readouterr().out.count("1970-01-01T00:00:00Z") == 2


def test_the_console_shows_the_newest_rows(capsys: pytest.CaptureFixture[str]) -> None:
    Console(2)("q", 7, pa.table({"n": [1, 2, None]}))
    shown = capsys.readouterr().out
    assert "q, step 7: 3 rows" in shown
    assert "NULL" in shown
    assert " 1 " not in shown


@pytest.mark.parametrize("name", ["[/x]", "[red]alarm", "\x1b[31malarm"])
def test_the_console_shows_names_of_columns_as_they_are(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Console(1)("q\x1b[0m", 1, pa.table({name: [1]}))
    shown = capsys.readouterr().out
    assert name.replace("\x1b", "\N{REPLACEMENT CHARACTER}") in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("parquet", {}, "needs a path"),
        ("parquet", {"path": "gs://bucket"}, "gs://"),
        ("json", {"path": "/tmp/x", "speed": 1}, "does not take"),
        ("callback", {}, "needs function="),
        ("memery", {}, "no sink 'memery'"),
    ],
)
def test_what_a_sink_lacks_is_said(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_sink(kind, options)


def test_rejected_rows_are_kept_with_the_reason(tmp_path: Path) -> None:
    root = with_input(tmp_path, 2)
    write_input(root / "input", [{"t": None, "k": "x", "v": 1, "x": 1.0}, *batches(1)[0]], 9)
    with patch("os.fsync"):
        run_all(root)
    rejected = pa.concat_tables(
        [pq.read_table(file) for file in sorted((root / "state" / "rejected").glob("*.parquet"))],
        promote_options="default",
    )
    assert "no event time" in rejected["rejected_reason"].to_pylist()
    assert set(rejected["rejected_reason"].to_pylist()) <= {"no event time", "late"}
    assert rejected["rejected_step"].null_count == 0
