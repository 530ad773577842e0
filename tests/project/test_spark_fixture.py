"""The shared session works, its workers run this very Python, and its tests are marked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def name_the_python(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"executable": [sys.executable]})


def test_workers_run_the_python_of_the_tests(spark: SparkSession) -> None:
    rows = spark.range(2).mapInArrow(name_the_python, "executable string").collect()
    assert {row.executable for row in rows} == {sys.executable}


def test_session_is_small_and_local(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2]"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_users_of_the_session_are_marked(spark: SparkSession, request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("jvm") is not None


def test_others_are_not_marked(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("jvm") is None
