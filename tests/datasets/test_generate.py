from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.datasets import KINDS, generate
from headrace.model.errors import UsageError

ROWS = 300_000
"""More than one chunk."""

DIGESTS = {
    ("trades", None): "6ae6cc3a62425415",
    ("packets", "gigascope"): "85a352e929a19845",
    ("packets", "uniform"): "51703c12d6830e29",
    ("packets", "skewed"): "4866c18e9706f358",
    ("netflow", None): "557d7cff327e1218",
    ("syn", None): "684032995f570c02",
}
"""Of the values that seed 7 gives, on any machine; they change only when a generator is changed on purpose."""


def parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.parquet"))


def read(folder: Path) -> pa.Table:
    return pa.concat_tables(pq.read_table(path) for path in parts(folder))


def times_us(table: pa.Table) -> np.ndarray:
    times: np.ndarray = table["Time"].cast(pa.int64()).to_numpy()
    return times


def digest(out: Path) -> str:
    """Hash all values, column by column, whatever the files and row groups they are in."""
    total = hashlib.sha256()
    for folder in sorted(path for path in out.iterdir() if path.is_dir()):
        table = read(folder)
        for name in table.column_names:
            column = table[name]
            total.update(f"{folder.name}.{name}: {column.type}\n".encode())
            if pa.types.is_string(column.type):
                total.update("\n".join(column.to_pylist()).encode())
            else:
                column = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
                total.update(np.ascontiguousarray(column.to_numpy()).tobytes())
    return total.hexdigest()[:16]


@pytest.mark.parametrize(("kind", "preset"), DIGESTS)
def test_same_recipe_same_values(kind: str, preset: str | None, tmp_path: Path) -> None:
    generate(kind, ROWS, 7, tmp_path / "once", preset=preset)
    assert digest(tmp_path / "once") == DIGESTS[kind, preset]


@pytest.mark.parametrize("kind", KINDS)
def test_files_do_not_change_values_and_seeds_do(kind: str, tmp_path: Path) -> None:
    generate(kind, 20_000, 1, tmp_path / "once")
    generate(kind, 20_000, 1, tmp_path / "again", file_span_s=KINDS[kind].default_file_span_s / 7)
    generate(kind, 20_000, 2, tmp_path / "other")
    assert digest(tmp_path / "once") == digest(tmp_path / "again") != digest(tmp_path / "other")


@pytest.mark.parametrize("kind", KINDS)
def test_files_cover_disjoint_spans_in_order(kind: str, tmp_path: Path) -> None:
    summary = generate(kind, ROWS, 3, tmp_path / "data")
    start_us = round(KINDS[kind].default_start.timestamp() * 1e6)
    span_us = KINDS[kind].default_file_span_s * 1_000_000
    last_us, spans = start_us - 1, []
    for path in parts(tmp_path / "data" / KINDS[kind].stream):
        times = times_us(pq.read_table(path))
        assert np.all(np.diff(times) >= 0)
        assert last_us < times[0]
        last_us = int(times[-1])
        spans += np.unique((times - start_us) // span_us).tolist()
    assert spans == list(range(len(spans)))
    assert len(spans) > 1
    assert round(summary.last_time.timestamp() * 1e6) == last_us
    assert last_us - start_us < ROWS * KINDS[kind].default_span_s * 1_000_000 / KINDS[kind].default_rows


def test_summary_and_progress(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    out = tmp_path / "new" / "data"
    summary = generate("trades", ROWS, 1, out, progress=lambda done, total: calls.append((done, total)))
    files = list(out.glob("*/*"))
    assert (summary.rows, summary.files, summary.bytes) == (ROWS, len(files), sum(f.stat().st_size for f in files))
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})
    assert calls[-1] == (ROWS, ROWS)
    times = times_us(read(out / "Trades"))
    assert len(times) == ROWS
    assert [round(t.timestamp() * 1e6) for t in (summary.first_time, summary.last_time)] == [times[0], times[-1]]


@pytest.mark.parametrize("kind", KINDS)
def test_schema_matches_the_files(kind: str, tmp_path: Path) -> None:
    generate(kind, 100, 1, tmp_path / "data")
    sql = (tmp_path / "data" / "schema.sql").read_text()
    assert sql == KINDS[kind].schema_sql
    arrow = {
        "TIMESTAMP": pa.timestamp("us", tz="UTC"), "STRING": pa.string(), "ADDRESS": pa.string(),
        "DOUBLE": pa.float64(), "BIGINT": pa.int64(), "BOOLEAN": pa.bool_(),
    }  # fmt: skip
    declared = re.findall(r"CREATE (?:STREAM|TABLE) (\w+) \(([^)]*)\)", sql)
    assert {name for name, _ in declared} == {path.name for path in (tmp_path / "data").iterdir() if path.is_dir()}
    for name, columns in declared:
        expected = [(column, arrow[kind]) for column, kind in (entry.split() for entry in columns.split(","))]
        assert [(field.name, field.type) for field in read(tmp_path / "data" / name).schema] == expected


def test_start_moves_the_times_and_nothing_else(tmp_path: Path) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    generate("trades", 5_000, 1, tmp_path / "default")
    summary = generate("trades", 5_000, 1, tmp_path / "moved", start=start)
    default, moved = read(tmp_path / "default" / "Trades"), read(tmp_path / "moved" / "Trades")
    assert summary.first_time >= start
    assert set(times_us(moved) - times_us(default)) == {
        round((start - KINDS["trades"].default_start).total_seconds() * 1e6)
    }
    assert moved.drop(["Time"]) == default.drop(["Time"])


def test_the_rate_sets_the_span(tmp_path: Path) -> None:
    summary = generate("netflow", 20_000, 1, tmp_path / "busy", rate=5_000)
    assert 3.9 < (summary.last_time - summary.first_time).total_seconds() < 4.0


def test_disorder_is_bounded_and_keeps_the_rows(tmp_path: Path) -> None:
    generate("trades", 50_000, 1, tmp_path / "ordered", file_span_s=30)
    generate("trades", 50_000, 1, tmp_path / "late", file_span_s=30, disorder_s=2)
    ordered, late = read(tmp_path / "ordered" / "Trades"), read(tmp_path / "late" / "Trades")
    times = times_us(late)
    behind_us = np.maximum.accumulate(times) - times
    assert 1_500_000 < behind_us.max() <= 2_000_000
    assert late.take(np.argsort(times, kind="stable")).column("Time") == ordered.column("Time")
    keys = [(name, "ascending") for name in late.column_names]
    assert late.sort_by(keys) == ordered.sort_by(keys)


def test_interrupted_run_leaves_only_whole_files(tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "data"
    with pytest.raises(KeyboardInterrupt):
        generate("packets", 600_000, 1, out, progress=stop)
    assert sorted(path.name for path in out.iterdir()) == ["Packets"]
    files = list((out / "Packets").iterdir())
    assert sorted(files) == parts(out / "Packets")
    assert 0 < len(read(out / "Packets")) < 600_000
    with pytest.raises(UsageError, match="not an empty directory"):
        generate("packets", 10, 1, out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "weather"}, "unknown kind of data 'weather'"),
        ({"rows": 0}, "at least 1 row"),
        ({"seed": -1}, "seed"),
        ({"preset": "gigascope"}, "no preset 'gigascope'"),
        ({"kind": "packets", "preset": "bursty"}, "no preset 'bursty'"),
        ({"flow_length": 4.0}, "no flows"),
        ({"kind": "packets", "preset": "uniform", "flow_length": 4.0}, "no flows"),
        ({"kind": "packets", "flow_length": 0.5}, "at least 1 packet"),
        ({"kind": "packets", "flow_length": float("nan")}, "at least 1 packet"),
        ({"start": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001 - what is refused
        ({"rate": 0.0}, "more than 0 a second"),
        ({"rate": float("nan")}, "more than 0 a second"),
        ({"file_span_s": 0}, "at least 1 second"),
        ({"disorder_s": -1.0}, "0 seconds or more"),
    ],
)
def test_refused(arguments: dict[str, object], message: str, tmp_path: Path) -> None:
    usual: dict[str, object] = {"kind": "trades", "rows": 10, "seed": 1, "out": tmp_path / "data"}
    with pytest.raises(UsageError, match=message):
        generate(**(usual | arguments))  # type: ignore[arg-type]
    assert not (tmp_path / "data").exists()


def test_occupied_directory_is_refused_and_untouched(tmp_path: Path) -> None:
    generate("syn", 10, 1, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="not an empty directory"):
        generate("trades", 10, 1, tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_million_rows(kind: str, tmp_path: Path) -> None:
    summary = generate(kind, 10_000_000, 1, tmp_path / "data")
    assert summary.rows == 10_000_000
    assert sum(pq.read_metadata(part).num_rows for part in (tmp_path / "data").glob("*/*.parquet")) >= 10_000_000
