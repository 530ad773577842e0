"""The Spark session: settings that Headrace needs, is faster with, or is safer with; each says why.

A session that is handed in is used as it is, and what it lacks is reported.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.model.errors import UsageError
from headrace.spark.java import check_java, names_own_spark

LOG = logging.getLogger(__name__)
NEVER = "^$"
"""A pattern that the name of no method matches."""
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""
"""Of the JVM, as Spark sets it for a shell, but without the remarks on how it is set and on libraries it does without.
`spark.log.level` holds once the session has started.
"""


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
    JAVA_OPTIONS: Wanted(
        "-XX:+UseSerialGC",
        "beside the workers the JVM does little: all memory grows by 9% in 150 steps, with its usual collector by 13%",
        is_reported=False,
    ),
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
    settings = {
        "spark.master": master,
        "spark.app.name": "headrace",
        **{key: wanted.value for key, wanted in SETTINGS.items()},
        **{f"spark.executorEnv.{key}": value for key, value in ENVIRONMENT.items()},
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "headrace-warehouse"),
        **(extra or {}),
    }
    start_java(settings)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def start_java(settings: Mapping[str, str]) -> None:
    """Where no JVM runs yet, in a session of its own: a signal to our process group, as `timeout` and terminals send
    it, is for us, who let the step finish. PySpark keeps SIGINT from it and nothing else.
    """
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        check_java(os.environ)
        with logging_options() as options:
            told = {**settings, JAVA_OPTIONS: f"{options} {settings.get(JAVA_OPTIONS, '')}".strip()}
            conf = SparkConf(loadDefaults=False).setAll(list(told.items()))
            gateway = launch_gateway(conf, popen_kwargs={"start_new_session": True})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def logging_options() -> Iterator[str]:
    """How the JVM that is started meanwhile logs: it reads the file once."""
    if names_own_spark(os.environ):
        yield ""
        return
    with tempfile.NamedTemporaryFile("w", prefix="headrace-", suffix=".properties") as file:
        file.write(LOGGING)
        file.flush()
        yield f"-Dlog4j2.configurationFile={Path(file.name).as_uri()}"


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
        stop(ours)
        raise
    stop(ours)


def stop(ours: SparkSession) -> None:
    """One whose JVM is gone has stopped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            ours.stop()
        except (ConnectionError, Py4JError) as problem:
            LOG.debug("Spark had stopped already: %s", problem)


UNFIT = re.compile(
    r"No module named '(?:headrace|pyarrow|numpy|numba|sqlglot|pyspark)[.\w]*'|\[PYTHON_VERSION_MISMATCH\] [^\n]*"
    r"|Cannot run program [^\n]*"
)


def check_workers(spark: SparkSession, problem: BaseException) -> None:
    """Raise what went wrong in a step in our words, if it is that the workers' Python can't run Headrace."""
    found = UNFIT.search(str(problem))
    if found:
        raise UsageError(
            "workers-python",
            f"Spark's workers run {spark.sparkContext.pythonExec}, which can't run Headrace",
            detail=found[0],
            hint=f"set PYSPARK_PYTHON={sys.executable} before the session starts, or install headrace there",
        ) from None
