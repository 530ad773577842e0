"""Executors of a cluster, without one: when to report that there is none, when to give up, how many cores there are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf

from headrace.engine.step.context import Step, StreamSetting, open_step, to_message
from headrace.model.errors import UsageError
from headrace.spark import executors
from headrace.spark import session as sessions
from headrace.spark.executors import Activity, IdleJob, Reports, describe_missing_executor, is_local, wait_for_cores
from headrace.storage.records import Journal
from tests.engine.files import CATALOG

WAITS = Activity(executors=0, stages=1, tasks=0)
WORKS = Activity(executors=2, stages=1, tasks=4)
LISTS_NONE = Activity(executors=2, stages=1, tasks=0)
PLANS = Activity(executors=2, stages=0, tasks=0)


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", True),
        ("local[2]", True),
        ("local[*,3]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://localhost:7077", False),
        ("yarn", False),
        ("localhost", False),
        (None, False),
    ],
)
def test_which_masters_are_on_one_machine(master: str | None, expected: bool) -> None:
    assert is_local(master) == expected


def test_a_missing_executor_is_reported_after_a_minute_and_then_rarely() -> None:
    """Looks at every five seconds: it waits from the start; one comes after 20 minutes, and goes."""
    reports = Reports()
    due = [second for second in range(0, 3_000, 5) if reports.is_due(second, is_waiting=not 1_200 <= second < 1_300)]
    assert due == [60, 660, 1_360, 1_960, 2_560]


def test_the_report_names_the_address_that_workers_must_reach() -> None:
    conf = SparkConf(loadDefaults=False).setMaster("spark://m:7077")
    text = describe_missing_executor(conf.set("spark.driver.host", "10.0.0.1").set("spark.driver.port", "4040"))
    assert "10.0.0.1:4040" in text
    assert "spark://m:7077" in text
    assert "spark.driver.host" in text


def clocked(seconds: list[float]) -> Any:
    return lambda: seconds.pop(0)


def test_a_job_without_a_task_is_cancelled_when_it_has_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    spark: Any = Mock()
    seen: Iterator[Activity] = iter([WAITS, WORKS, PLANS, LISTS_NONE, LISTS_NONE, WORKS, WAITS, WAITS, WAITS])
    monkeypatch.setattr(executors, "read_activity", lambda _: next(seen))
    job = IdleJob(spark, clocked([0.0, 10.0, 69.9, 80.0, 84.9, 85.0]))
    for _ in range(8):
        job.cancel_if_idle()
    assert not spark.sparkContext.cancelAllJobs.called
    job.cancel_if_idle()
    assert job.is_cancelled
    spark.sparkContext.cancelAllJobs.assert_called_once_with()


def cluster(cores: list[int], **settings: str) -> Any:
    """A session whose number of cores changes with every look; the last one stays."""
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(f"spark.{key.replace('_', '.')}", value)

    class Context:
        master = settings.get("master", "spark://m:7077")
        looks = 0

        def getConf(self) -> SparkConf:
            return conf

        @property
        def defaultParallelism(self) -> int:
            self.looks += 1
            return cores[min(self.looks, len(cores)) - 1]

    return SimpleNamespace(sparkContext=Context(), range=Mock())


@pytest.mark.parametrize(
    ("cores", "settings", "expected", "seconds"),
    [
        ([2, 2, 4, 8], {}, 8, 3.3),
        ([2, 2, 2], {}, 2, 3.0),
        ([2, 2, 4, 8], {"cores_max": "4"}, 4, 0.2),
        ([2, 4], {"executor_instances": "4", "executor_cores": "2"}, 4, 30.0),
        ([2, 4, 8], {"default_parallelism": "2"}, 2, 0.0),
        ([2, 4, 8], {"master": "local[2]"}, 2, 0.0),
    ],
)
def test_cores_are_counted_when_executors_have_registered(
    cores: list[int], settings: dict[str, str], expected: int, seconds: float
) -> None:
    now = [0.0]

    def pause(length_s: float) -> None:
        now[0] += length_s

    spark = cluster(cores, **settings)
    assert wait_for_cores(spark, lambda: now[0], pause) == expected
    assert now[0] == pytest.approx(seconds, abs=0.15)
    assert spark.range.called == (seconds > 0.0), "a job that waits for the first executor"


@pytest.mark.parametrize(
    ("master", "setting", "expected"),
    [("spark://m:7077", None, "/env/python"), ("spark://m:7077", "/set/python", "/set/python"), ("local", None, None)],
)
def test_the_python_of_the_workers_may_be_chosen(
    master: str, setting: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/env/python")
    settings = {} if setting is None else {"spark.pyspark.python": setting}
    assert sessions.choose_workers_python(master, settings) == (expected or sys.executable)


def test_secrets_are_not_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = Mock()
    monkeypatch.setattr(sessions, "launch_gateway", launch)
    sessions.launch_java(
        {"spark.master": "spark://m", "spark.authenticate.secret": "s3", "spark.ssl.keyPassword": "s3"}, {}
    )
    (conf,) = launch.call_args.args
    assert ("spark.master", "spark://m") in conf.getAll()
    assert "s3" not in dict(conf.getAll()).values()


def test_a_master_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = Mock()
    builder.config.return_value = builder
    builder.getOrCreate.side_effect = Py4JError(f"java.lang.IllegalStateException: {sessions.NO_MASTER}.\nThis ...")
    monkeypatch.setattr(sessions, "SparkSession", SimpleNamespace(builder=builder))
    monkeypatch.setattr(sessions, "start_java", Mock())
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    with pytest.raises(UsageError, match="spark://m:7077 does not answer"):
        sessions.start_session("spark://m:7077")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with pytest.raises(Py4JError):
        sessions.start_session("local")


def test_a_worker_that_does_not_see_the_state_says_so(tmp_path: Path) -> None:
    setting = StreamSetting("id", str(tmp_path / "state"), CATALOG, "r", None)
    journal = Journal(3, None, None, None, 0, None, {})
    with pytest.raises(UsageError, match="does not see the journal of step 3 in /") as problem:
        open_step(to_message(Step(setting, journal, None), has_state=False))
    assert problem.value.code == "state-unreachable"
    assert "or an object store" in str(problem.value)
