"""A step commits only if its tasks read exactly what the journal names, and every row is accounted for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import PropertyMock, patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace import inputs
from headrace.engine.step import level1_task as mapping
from headrace.engine.step.late_rows import Admission
from headrace.engine.step.stepper import Input
from headrace.inputs import InputRows
from headrace.inputs.parquet import PIECE_ROWS
from headrace.model.errors import DataError
from tests.engine.files import SCHEMA, batches, check_results, make_stepper, run_all, write_input
from tests.spark.test_engine import engine_over

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = 4


def write_files(root: Path, count: int = STEPS) -> None:
    for number, rows in enumerate(batches(count)):
        write_input(root / "input", rows, number)


def test_executors_that_register_while_a_step_begins(spark: SparkSession, tmp_path: Path) -> None:
    """The number of tasks is taken once: here Spark has one core at first, and four a moment later."""
    from headrace.spark.runner import SparkRunner

    write_files(tmp_path, 8)
    engine = engine_over(spark, tmp_path, reducers=2)
    engine.stream("r", tmp_path / "input")
    engine.add("n", "SELECT count(*) AS n FROM r [RANGE '1000000 s']")
    cores = PropertyMock(side_effect=[1, *[4] * 100])
    with patch.object(SparkRunner, "tasks", cores), engine.bounded() as run:
        assert sum(run.results("n")["n"].to_pylist()) == 12 * 8


def test_a_dataframe_that_loses_rows_on_the_way(spark: SparkSession, tmp_path: Path) -> None:
    from headrace.spark import runner as running

    rows = [row for batch in batches(2) for row in batch]
    engine = engine_over(spark, tmp_path)
    engine.stream("r", spark.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA)))
    engine.add("n", "SELECT count(*) AS n FROM r [RANGE '1000000 s']")
    with (
        patch.object(running, "make_row_task", losing_rows),
        pytest.raises(DataError, match="of 24 rows of the dataframe"),
    ):
        engine.bounded()
    assert not list((tmp_path / "state" / "r" / "commits").glob("0*"))


def losing_rows(message: Any, names: list[str]) -> Any:
    """Level 1 over the rows of a dataframe but the first of each batch."""
    from headrace.spark.runner import make_row_task

    def run(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = pa.Table.from_batches(list(given)).slice(1)
        yield from make_row_task(message, names)(iter(tables.to_batches()))

    return run


@pytest.mark.parametrize("times", [0, 2])
def test_a_task_that_is_not_run_once(tmp_path: Path, times: int) -> None:
    write_files(tmp_path)
    stepper = make_stepper(tmp_path)
    stepper.step_bytes = 1 << 30
    map_units = mapping.map_units

    def odd(step: Any, units: Any) -> Any:
        own = list(units)
        for _ in range(times if 0 in own else 1):
            yield from map_units(step, own)

    with patch("headrace.engine.step.runner.map_units", odd), pytest.raises(DataError, match="units") as problem:
        stepper.step(Input())
    assert problem.value.code == "rows-lost"
    assert stepper.commit is None
    stepper.close()
    run_all(tmp_path)
    with pytest.raises(AssertionError):
        check_results(tmp_path, STEPS)  # the step was begun with all files at once, so other rows are late
    assert make_commit(tmp_path).totals.rows == 12 * STEPS


def make_commit(root: Path) -> Any:
    stepper = make_stepper(root)
    stepper.close()
    return stepper.commit


def test_rows_that_a_reader_loses(tmp_path: Path) -> None:
    """The footer of a Parquet file is an independent witness."""
    write_files(tmp_path)
    read = inputs.read
    stepper = make_stepper(tmp_path)

    def forgetful(*given: Any) -> Iterator[InputRows]:
        for rows in read(*given):
            yield replace(rows, table=rows.table.slice(1))

    with patch("headrace.engine.step.level1_task.read", forgetful), pytest.raises(DataError, match="11 of 12 rows"):
        stepper.step(Input())
    assert stepper.commit is None
    stepper.close()


def test_rows_that_are_in_no_count(tmp_path: Path) -> None:
    write_files(tmp_path)
    stepper = make_stepper(tmp_path)
    admit = Admission.admit

    def forgetful(admission: Admission, rows: InputRows) -> pa.Table:
        table = admit(admission, rows)
        admission.count(admitted=-1)
        return table

    with patch.object(Admission, "admit", forgetful), pytest.raises(DataError, match="12 rows were read, and 11"):
        stepper.step(Input())
    stepper.close()


def test_a_file_that_is_found_bad_midway_was_read_in_part(tmp_path: Path) -> None:
    """The rows before the damage count, and the commit record has their number."""
    write_files(tmp_path, 3)
    path = tmp_path / "input" / "part-0001.parquet"
    rows = pa.Table.from_pylist(batches(2)[1] * 40_000, schema=SCHEMA)
    pq.write_table(rows, path, compression="none", use_dictionary=False, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    times = pq.ParquetFile(path).metadata.row_group(0).column(0)
    end = times.data_page_offset + times.total_compressed_size
    data[end - 16 : end] = b"\xff" * 16
    path.write_bytes(data)
    stepper = make_stepper(tmp_path)
    stepper.setting = replace(stepper.setting, on_bad_file="quarantine")
    stepper.step_bytes = 1 << 30
    commit = stepper.step(Input())
    assert commit is not None
    (left_out,) = commit.quarantined
    assert (left_out.path, left_out.rows) == (str(path), PIECE_ROWS)
    assert commit.totals.rows == 24 + PIECE_ROWS
    stepper.close()
