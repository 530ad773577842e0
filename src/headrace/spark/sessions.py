"""The Spark session: settings that Headrace needs, is faster with, or is safer with; each says why.

A session that is handed in is used as it is, and what it lacks is reported.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)
NEVER = "^$"
"""A pattern that the name of no method matches."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A setting, and why. Some matter only where the session is our own; some are what Spark takes by itself."""

    value: str
    why: str
    is_reported: bool = True
    is_default: bool = False


SETTINGS: Mapping[str, Wanted] = {
    "spark.sql.adaptive.enabled": Wanted(
        "false", "a small job takes 535 ms with adaptive execution and 250 ms without", is_reported=False
    ),
    "spark.python.worker.reuse": Wanted(
        "true", "a new worker loads compiled loops for about a second", is_default=True
    ),
    "spark.python.daemon.module": Wanted("headrace.spark.daemon", "workers start with the kernel loaded"),
    "spark.sql.session.timeZone": Wanted("UTC", "times inside are UTC", is_reported=False),
    "spark.ui.enabled": Wanted("false", "the web interface listens on all addresses, without a password"),
    "spark.ui.showConsoleProgress": Wanted("false", "progress is shown by Headrace", is_reported=False),
    "spark.sql.runSQLOnFiles": Wanted("false", "no text of a query may name a file"),
    "spark.sql.reflect.allowList": Wanted(NEVER, "no text of a query may call Java methods"),
    "spark.sql.execution.pyspark.udf.tracebackWithLocals.enabled": Wanted(
        "false", "values of rows stay out of logs", is_default=True
    ),
    "spark.driver.bindAddress": Wanted("127.0.0.1", "on one machine nobody else has to reach it", is_reported=False),
    "spark.driver.host": Wanted("127.0.0.1", "on one machine nobody else has to reach it", is_reported=False),
    "spark.log.level": Wanted("ERROR", "Headrace reports what matters", is_reported=False),
}

ENVIRONMENT: Mapping[str, str] = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
"""One thread per worker: there are as many workers as cores."""


def start_session(master: str = "local[*]", extra: Mapping[str, str] | None = None) -> SparkSession:
    """A session with all settings. The workers run the Python that this is."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    builder = SparkSession.builder.master(master).appName("headrace")
    for key, wanted in SETTINGS.items():
        builder = builder.config(key, wanted.value)
    for key, value in ENVIRONMENT.items():
        builder = builder.config(f"spark.executorEnv.{key}", value)
    builder = builder.config("spark.sql.warehouse.dir", str(Path(tempfile.gettempdir()) / "headrace-warehouse"))
    for key, value in (extra or {}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def lacking(spark: SparkSession) -> Iterator[str]:
    """What a session that was handed in would be better with."""
    set_there = spark.sparkContext.getConf()
    for key, wanted in SETTINGS.items():
        found = set_there.get(key, wanted.value if wanted.is_default else None)
        if wanted.is_reported and found != wanted.value:
            yield f"{key} = {wanted.value}: {wanted.why}"
    if spark.sparkContext.pythonExec != sys.executable:
        yield f"PYSPARK_PYTHON = {sys.executable}: workers run {spark.sparkContext.pythonExec} instead"


REPORTED: set[str] = set()
"""The applications that were told."""


def report_lacking(spark: SparkSession) -> None:
    """Once for each application, through logging."""
    application = spark.sparkContext.applicationId
    found = [] if application in REPORTED else list(lacking(spark))
    REPORTED.add(application)
    if found:
        settings = "".join(f"\n  {each}" for each in found)
        LOG.warning(
            "this Spark session is used as it is; headrace.spark.sessions.start_session() also sets%s", settings
        )


@contextmanager
def session(
    master: str = "local[*]", extra: Mapping[str, str] | None = None, starting: Callable[[], None] = lambda: None
) -> Iterator[SparkSession]:
    """The session that is active, which stays; or one of our own, which is stopped when all went well or not, but not
    when someone wants to leave at once.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    starting()
    ours = start_session(master, extra)
    try:
        yield ours
    except Exception:
        ours.stop()
        raise
    ours.stop()
