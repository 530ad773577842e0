"""Errors of Spark in our words: those of tasks, those of the JVM, and what is left as it is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PythonException

from headrace.model.errors import DataError, HeadraceError, UsageError
from headrace.spark.errors import DETAILS, TaskError, is_lost, translate_error
from headrace.spark.session import check_workers

TRACE = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/headrace/spark/mapping.py", line 95, in unit_rows
    yield from read(setting.source, unit, setting.declared, columns)
{error}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:833)
"""


def test_our_errors_come_out_of_a_stack_trace_whole(tmp_path: Path) -> None:
    error = DataError("bad-file", "x.parquet: is damaged", detail="page 3", hint="write it again")
    trace = TRACE.format(error=f"headrace.model.errors.DataError: {error}")
    found = translate_error(PythonException(trace), str(tmp_path))
    assert isinstance(found, TaskError)
    assert found.code == "bad-file"
    assert str(found) == str(error)
    assert list(tmp_path.iterdir()) == []


def test_other_errors_are_one_line_and_a_file(tmp_path: Path) -> None:
    trace = TRACE.format(error="ZeroDivisionError: division by zero")
    found = str(translate_error(PythonException(trace), str(tmp_path)))
    assert found == (
        "error[spark]: a step failed in Spark: ZeroDivisionError: division by zero\n"
        f"hint: all that Spark said is in {tmp_path / DETAILS}"
    )
    assert "BasePythonRunner" in (tmp_path / DETAILS).read_text()
    died = "An error occurred while calling o1.x.\n: a.B: aborted\nCaused by: a.b.C: the worker died\nCaused by: a.EOF"
    assert "a step failed in Spark: the worker died\n" in str(translate_error(PythonException(died), str(tmp_path)))
    lost = str(
        translate_error(PythonException("[JOB_ABORTED] Job 7 was cancelled\n\tat x"), f"{tmp_path / DETAILS}/none")
    )
    assert lost.startswith("error[spark]: a step failed in Spark: [JOB_ABORTED] Job 7 was cancelled")


def test_errors_that_are_not_of_spark_stay_what_they_are(tmp_path: Path) -> None:
    for problem in (UsageError("x", "y"), AssertionError()):
        assert translate_error(problem, str(tmp_path)) is problem


def test_a_lost_jvm_is_no_bug_of_ours(tmp_path: Path) -> None:
    empty = PythonException("Answer from Java side is empty")
    for problem in (ConnectionRefusedError(111, "Connection refused"), ConnectionResetError(), empty):
        found = translate_error(problem, str(tmp_path))
        assert isinstance(found, HeadraceError)
        assert found.code == "spark-lost"
        assert is_lost(found)
        assert translate_error(found, str(tmp_path)) is found
    assert not is_lost(ValueError("Answer from Java side is empty"))


def test_workers_that_lack_headrace_are_told_by_their_python() -> None:
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(pythonExec="/usr/bin/python3"))
    trace = TRACE.format(error="ModuleNotFoundError: No module named 'headrace'")
    with pytest.raises(UsageError, match="workers run /usr/bin/python3") as problem:
        check_workers(spark, PythonException(trace))
    assert "PYSPARK_PYTHON=" in (problem.value.hint or "")
    check_workers(spark, PythonException(TRACE.format(error="ModuleNotFoundError: No module named 'mine'")))
