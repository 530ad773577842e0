"""Hypothesis profiles, golden files, the Spark session all tests share, and the marker of the tests that use it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No deadlines: the first call of a compiled loop, or of a JVM, takes seconds.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

SPARK_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what golden tests find into their files")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of a file share its fixtures, so one worker runs them; all that need Java share one session."""
    for item in items:
        needs_java = "spark" in getattr(item, "fixturenames", ())
        if needs_java:
            item.add_marker(pytest.mark.jvm)
        if config.pluginmanager.hasplugin("xdist"):
            item.add_marker(pytest.mark.xdist_group("jvm" if needs_java else str(item.path)))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for the whole run; it takes about ten seconds to start."""
    from pyspark.sql import SparkSession

    # Before the session starts: otherwise the workers run whatever `python3` is on PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # PySpark logs a JSON stack trace for every analysis error, also for the expected ones.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    builder = SparkSession.builder.master("local[2]").appName("headrace-tests")
    for key, value in SPARK_SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse"))).getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def without_sync() -> Iterator[None]:
    """Let files be written without waiting for the disk: where nothing loses its power."""
    with patch("os.fsync"):
        yield
