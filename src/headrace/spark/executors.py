"""Executors of a cluster: whether a job waits for one, and the number of cores once they have registered."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf
from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)
LOOK_S = 5.0
FIRST_REPORT_S = 60.0
NEXT_REPORT_S = 600.0
IDLE_S = 5.0
MAX_IDLE_S = 60.0
"""The limit where there are executors: Spark may report a task only with the next heartbeat of its executor."""
SETTLE_S = 3.0
MAX_SETTLE_S = 30.0

Clock = Callable[[], float]


def is_local(master: str | None) -> bool:
    """Whether driver and executors are on this machine."""
    return (master or "").partition("[")[0] in ("local", "local-cluster")


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect, which has no context to ask."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def count_partitions(spark: SparkSession) -> int:
    """Return how many partitions Spark makes of rows by itself: one for each core."""
    return spark.range(0, 1 << 16).selectExpr("spark_partition_id()").distinct().count()


@dataclass(frozen=True, slots=True)
class Activity:
    """What a session does at the moment."""

    executors: int
    stages: int
    tasks: int

    @property
    def is_idle(self) -> bool:
        """Whether there is work, and none of it runs."""
        return self.stages > 0 and self.tasks == 0


def read_activity(spark: SparkSession) -> Activity:
    """Return what runs now. Spark lists the driver among the executors."""
    context = spark.sparkContext
    stages = [context.statusTracker().getStageInfo(number) for number in context.statusTracker().getActiveStageIds()]
    tasks = sum(stage.numActiveTasks for stage in stages if stage is not None)
    return Activity(context._jsc.sc().getExecutorMemoryStatus().size() - 1, len(stages), tasks)


class Reports:
    """Decides when to report that a job waits for an executor: after a minute, then rarely."""

    def __init__(self) -> None:
        self.since_s: float | None = None
        self.next_s = 0.0

    def is_due(self, now_s: float, is_waiting: bool) -> bool:
        if not is_waiting:
            self.since_s = None
            return False
        if self.since_s is None:
            self.since_s, self.next_s = now_s, now_s + FIRST_REPORT_S
        if now_s < self.next_s:
            return False
        self.next_s = now_s + NEXT_REPORT_S
        return True


def watch_executors(spark: SparkSession) -> None:
    """Start a thread that logs when a job gets no executor, until the session is stopped."""

    def watch() -> None:
        reports = Reports()
        while spark.sparkContext._jsc is not None:
            try:
                activity = read_activity(spark)
            except (Py4JError, ConnectionError, AttributeError):
                return  # it was stopped meanwhile
            if reports.is_due(time.monotonic(), activity.is_idle and activity.executors == 0):
                LOG.warning(describe_missing_executor(spark.sparkContext.getConf()))
            time.sleep(LOOK_S)

    threading.Thread(target=watch, name="executors", daemon=True).start()


def describe_missing_executor(conf: SparkConf) -> str:
    address = f"{conf.get('spark.driver.host', '?')}:{conf.get('spark.driver.port', '?')}"
    return (
        f"Spark at {conf.get('spark.master', '?')} has given this job no executor for {FIRST_REPORT_S:.0f} s or more, "
        "so nothing is computed. Likely reasons:\n"
        f"  - the workers can't reach this process at {address}: set spark.driver.host (and, if that is no address of "
        "this machine, spark.driver.bindAddress) in the section [spark] of the job\n"
        "  - no worker has the cores and the memory free that an executor asks for\n"
        "  - the workers are down\n"
        "The logs of the workers' executors have the cause. The job waits; a signal to stop ends it."
    )


class IdleJob:
    """The work of a run on a cluster that is to stop. It is cancelled if no executor has run a task of it for a while,
    since such a step may never end.
    """

    def __init__(self, spark: SparkSession, clock: Clock = time.monotonic) -> None:
        self.spark = spark
        self.clock = clock
        self.since_s: float | None = None
        self.is_cancelled = False

    def cancel_if_idle(self) -> None:
        activity = read_activity(self.spark)
        if not activity.is_idle:
            self.since_s = None
            return
        now_s = self.clock()
        self.since_s = now_s if self.since_s is None else self.since_s
        if now_s - self.since_s >= (MAX_IDLE_S if activity.executors else IDLE_S):
            self.is_cancelled = True
            self.spark.sparkContext.cancelAllJobs()


def wait_for_cores(
    spark: SparkSession, clock: Clock = time.monotonic, pause: Callable[[float], None] = time.sleep
) -> int:
    """Return Spark's number of cores. On a cluster, first wait for an executor, however long that takes, then until all
    cores that the settings ask for are there or their number no longer grows, for half a minute at most.
    """
    if is_connect(spark):
        return count_partitions(spark)
    context = spark.sparkContext
    conf = context.getConf()
    if is_local(context.master) or conf.contains("spark.default.parallelism"):
        return int(context.defaultParallelism)
    spark.range(0, 1, 1, 1).collect()
    expected = count_expected_cores(conf)
    cores, grown_s = int(context.defaultParallelism), clock()
    until_s = grown_s + MAX_SETTLE_S
    while cores != expected and (now_s := clock()) < until_s and (expected is not None or now_s < grown_s + SETTLE_S):
        pause(0.1)
        if (now_cores := int(context.defaultParallelism)) != cores:
            cores, grown_s = now_cores, clock()
    return cores


def count_expected_cores(conf: SparkConf) -> int | None:
    """Return the number of cores that the settings ask for, if they do."""
    if conf.contains("spark.executor.instances"):
        return int(conf.get("spark.executor.instances", "1")) * int(conf.get("spark.executor.cores", "1"))
    return int(conf.get("spark.cores.max", "0")) or None
