"""The Spark session: settings that Headrace needs, is faster with, or is safer with; each says why.

A session that is handed in is used as it is, and what it lacks is reported.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from headrace.model.errors import UsageError
from headrace.spark.executors import is_connect, is_local, watch_executors
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
"""Logging of the JVM, as Spark sets it for a shell, without its remarks on levels and missing libraries.
`spark.log.level` applies once the session has started.
"""


@dataclass(frozen=True, slots=True)
class SparkSetting:
    """A value and its reason. Some matter only in a session of our own; some are the default of Spark."""

    value: str
    why: str
    is_reported: bool = True
    is_default: bool = False


SETTINGS: Mapping[str, SparkSetting] = {
    "spark.sql.adaptive.enabled": SparkSetting(
        "false", "a small job takes 535 ms with adaptive execution and 250 ms without", is_reported=False
    ),
    "spark.python.worker.reuse": SparkSetting(
        "true", "a new worker loads compiled loops for about a second", is_default=True
    ),
    "spark.python.daemon.module": SparkSetting("headrace.spark.worker_daemon", "workers start with the kernel loaded"),
    "spark.sql.session.timeZone": SparkSetting("UTC", "times inside are UTC", is_reported=False),
    "spark.ui.enabled": SparkSetting("false", "the web interface listens on all addresses, without a password"),
    "spark.ui.showConsoleProgress": SparkSetting("false", "progress is shown by Headrace", is_reported=False),
    "spark.sql.runSQLOnFiles": SparkSetting("false", "no text of a query may name a file"),
    "spark.sql.reflect.allowList": SparkSetting(NEVER, "no text of a query may call Java methods"),
    "spark.sql.execution.pyspark.udf.tracebackWithLocals.enabled": SparkSetting(
        "false", "values of rows stay out of logs", is_default=True
    ),
    JAVA_OPTIONS: SparkSetting(
        "-XX:+UseSerialGC",
        "beside the workers the JVM does little: all memory grows by 9% in 150 steps, with its usual collector by 13%",
        is_reported=False,
    ),
    "spark.log.level": SparkSetting("ERROR", "Headrace reports what matters", is_reported=False),
}

ON_ONE_MACHINE: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.authenticate": "true",
}
"""Only this machine has to reach it. Spark makes the secret of `local` itself. On a cluster the user sets these."""

SECRET = "spark.authenticate.secret"
PRIVATE = re.compile("secret|password|token|access.?key", re.IGNORECASE)
"""Settings that are passed over the JVM's socket, not on its command line, which everybody can see."""
STANDARD_ERROR = 2
INCUBATOR = b"WARNING: Using incubator modules"
LOCAL_FOLDER = "spark.local.dir"
UMASK = 0o077
NO_MASTER = "Cannot call methods on a stopped SparkContext"
"""The error of Spark when it has given up on its master: the context stops itself while it is made."""

ENVIRONMENT: Mapping[str, str] = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
"""One thread per worker: there are as many workers as cores."""


def start_session(master: str = "local[*]", extra: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session with all settings that Headrace needs, is faster with, or is safer with.

    Args:
        master: The master of Spark.
        extra: Further settings, which override those of Headrace.

    Returns:
        The session. Its workers run this Python, or the one that `spark.pyspark.python` names.

    Raises:
        UsageError: There is no Java that fits, or the master does not answer.
    """
    os.environ["PYSPARK_PYTHON"] = choose_workers_python(master, extra or {})
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    settings = {
        "spark.master": master,
        "spark.app.name": "headrace",
        **{key: wanted.value for key, wanted in SETTINGS.items()},
        **{f"spark.executorEnv.{key}": value for key, value in ENVIRONMENT.items()},
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "headrace-warehouse"),
        **(ON_ONE_MACHINE if is_local(master) else {}),
        **({SECRET: secrets.token_hex(32)} if master.startswith("local-cluster") else {}),
        **(extra or {}),
    }
    start_java(settings)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Py4JError as problem:
        if is_local(master) or NO_MASTER not in str(problem):
            raise
        hint = "is it running, and are these its address and port? can this machine reach it?"
        raise UsageError("spark-master", f"Spark's master at {master} does not answer", hint=hint) from problem
    if not is_local(master):
        watch_executors(spark)
    return spark


def choose_workers_python(master: str, settings: Mapping[str, str]) -> str:
    """Return the interpreter of the workers: the one that the settings name, on a cluster also the environment."""
    named = settings.get("spark.pyspark.python")
    if named is None and not is_local(master):
        named = os.environ.get("PYSPARK_PYTHON")
    return named or sys.executable


def start_java(settings: Mapping[str, str]) -> None:
    """Start the JVM, if none runs yet, in a process session of its own.

    `timeout` and terminals send signals to our process group. They are for us, so that the step can finish. PySpark
    keeps only SIGINT from the JVM.
    """
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    check_java(os.environ)
    popen: dict[str, Any] = {"start_new_session": True}
    if not is_local(settings["spark.master"]):
        SparkContext._ensure_initialized(gateway=launch_java(settings, popen))
        return
    folder = make_local_folder(settings)
    try:
        gateway = launch_java({**settings, **({LOCAL_FOLDER: folder} if folder else {})}, {**popen, "umask": UMASK})
        SparkContext._ensure_initialized(gateway=gateway)
        if folder:
            gateway.jvm.java.io.File(folder).deleteOnExit()
            atexit.register(remove_folder, folder, gateway.proc)
    except BaseException:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def make_local_folder(settings: Mapping[str, str]) -> str | None:
    """Make a folder that only we can read for what Spark puts on disk, such as pieces of the stream.

    Return None if the user has named one. The JVM uses it as long as it lives, and removes it when it ends.
    """
    if LOCAL_FOLDER in settings or os.environ.get("SPARK_LOCAL_DIRS"):
        return None
    return tempfile.mkdtemp(prefix="headrace-spark-")


def remove_folder(folder: str, java: subprocess.Popen[bytes]) -> None:
    """Remove what is left by a JVM that was killed."""
    if java.poll() is not None:
        shutil.rmtree(folder, ignore_errors=True)


def launch_java(settings: Mapping[str, str], popen: dict[str, Any]) -> Any:
    """Start a JVM with the settings that may be seen on its command line, and return PySpark's gateway to it."""
    with logging_options() as options, filtered_errors() as errors:
        popen = {**popen, "stderr": errors}
        shown = {key: value for key, value in settings.items() if not PRIVATE.search(key)}
        shown[JAVA_OPTIONS] = f"{options} {settings.get(JAVA_OPTIONS, '')}".strip()
        conf = SparkConf(loadDefaults=False).setAll(list(shown.items()))
        return launch_gateway(conf, popen_kwargs=popen)  # type: ignore[no-untyped-call]


@contextmanager
def filtered_errors() -> Iterator[int | None]:
    """Give the standard error of a JVM that is started meanwhile: ours, without the remark on its incubator modules.

    Java has no option against that remark, which Spark's own settings cause on every start.
    """
    if names_own_spark(os.environ):
        yield None
        return
    source, target = os.pipe()
    Thread(target=pass_errors, args=(source,), daemon=True).start()
    try:
        yield target
    finally:
        os.close(target)


def pass_errors(source: int) -> None:
    """Copy lines to standard error until the JVM, and all that it started, has ended."""
    with os.fdopen(source, "rb") as lines:
        for line in lines:
            if not line.startswith(INCUBATOR):
                os.write(STANDARD_ERROR, line)


@contextmanager
def logging_options() -> Iterator[str]:
    """Yield the options that set the logging of a JVM, which reads the file once, at its start."""
    if names_own_spark(os.environ):
        yield ""
        return
    with tempfile.NamedTemporaryFile("w", prefix="headrace-", suffix=".properties") as file:
        file.write(LOGGING)
        file.flush()
        yield f"-Dlog4j2.configurationFile={Path(file.name).as_uri()}"


def find_missing_settings(spark: SparkSession) -> Iterator[str]:
    """Yield the settings that a session of the user lacks, with their reasons."""
    conf = spark.sparkContext.getConf()
    for key, wanted in SETTINGS.items():
        value = conf.get(key, wanted.value if wanted.is_default else None)
        if wanted.is_reported and value != wanted.value:
            yield f"{key} = {wanted.value}: {wanted.why}"
    if is_local(spark.sparkContext.master) and spark.sparkContext.pythonExec != sys.executable:
        yield f"PYSPARK_PYTHON = {sys.executable}: workers run {spark.sparkContext.pythonExec} instead"


REPORTED: set[str] = set()
"""The applications whose missing settings were reported."""


def report_missing_settings(spark: SparkSession) -> None:
    """Log the settings that a session of the user lacks, once for each application. Connect does not show them."""
    if is_connect(spark):
        return
    application = spark.sparkContext.applicationId
    missing = [] if application in REPORTED else list(find_missing_settings(spark))
    REPORTED.add(application)
    if missing:
        settings = "".join(f"\n  {setting}" for setting in missing)
        LOG.warning("this Spark session is used as it is; headrace.spark.session.start_session() also sets%s", settings)


@contextmanager
def session(
    master: str = "local[*]", extra: Mapping[str, str] | None = None, starting: Callable[[], None] = lambda: None
) -> Iterator[SparkSession]:
    """Yield the active session, or one of our own that is stopped at the end.

    Our own is not stopped on an interrupt: then the user wants to leave at once.
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
        stop_session(ours)
        raise
    stop_session(ours)


def stop_session(ours: SparkSession) -> None:
    """Stop a session, whose JVM may be gone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            ours.stop()
        except (ConnectionError, Py4JError) as problem:
            LOG.debug("Spark had stopped already: %s", problem)


UNFIT_PYTHON = re.compile(
    r"No module named '(?:headrace|pyarrow|numpy|numba|sqlglot|pyspark)[.\w]*'|\[PYTHON_VERSION_MISMATCH\] [^\n]*"
    r"|Cannot run program [^\n]*"
)


def check_workers(spark: SparkSession, problem: BaseException) -> None:
    """Raise an error that names the workers' Python, if a step failed because that Python can't run Headrace."""
    sign = UNFIT_PYTHON.search(str(problem))
    if sign:
        python = "a Python of the server" if is_connect(spark) else spark.sparkContext.pythonExec
        raise UsageError(
            "workers-python",
            f"Spark's workers run {python}, which can't run Headrace",
            detail=sign[0],
            hint=f"set PYSPARK_PYTHON={sys.executable} before the session starts, or install headrace there",
        ) from None
