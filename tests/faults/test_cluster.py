"""A job on a standalone cluster whose parts have addresses of their own: right results with no setting but the master;
what can't work says why, and can be stopped.
"""

from __future__ import annotations

import math
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.cli.commands.init import FILES
from headrace.cli.main import main
from headrace.datasets import generate
from tests.faults.cluster import Cluster, cluster, require_cluster

pytestmark = [pytest.mark.slow, pytest.mark.jvm]
ROWS = 20_000
END_S = 300.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cluster")
    generate("trades", ROWS, 7, made / "data")
    (made / "hidden").mkdir()
    return made


@pytest.fixture(scope="module")
def spark_cluster(folder: Path) -> Iterator[Cluster]:
    require_cluster()
    with cluster(folder, hidden=[folder / "hidden"]) as made:
        yield made


def write_job(folder: Path, master: str, job: str = "", more: str = "") -> Path:
    """A job over the trades of all tests here."""
    folder.mkdir(exist_ok=True)
    for name, content in FILES.items():
        (folder / name).write_text(content)
    text = FILES["job.toml"].replace('# master = "local[*]"', f'master = "{master}"').replace('"data/', '"../data/')
    (folder / "job.toml").write_text(text.replace("[engine]\n", f"[engine]\n{job}\n") + more)
    return folder / "job.toml"


@contextmanager
def ended_in_time(process: subprocess.Popen[str]) -> Iterator[None]:
    """Kill the process if it does not end, so that reading what it says ends too."""
    timer = threading.Timer(END_S, process.kill)
    timer.start()
    try:
        with process:
            yield
    finally:
        timer.cancel()
        process.kill()


def rows_in(path: Path) -> list[dict[str, object]]:
    files = [path] if path.is_file() else sorted(path.glob("step-*.parquet"))
    return sorted((row for file in files for row in pq.read_table(file).to_pylist()), key=repr)


def is_same(value: object, other: object) -> bool:
    return math.isclose(value, other) if isinstance(value, float) and isinstance(other, float) else value == other


def test_a_master_is_all_that_must_be_set(spark_cluster: Cluster, folder: Path) -> None:
    job = write_job(folder / "plain", spark_cluster.master)
    driver = spark_cluster.start_driver("run", str(job), "--bounded")
    _, said = driver.communicate(timeout=END_S)
    assert driver.returncode == 0, said
    assert f"{ROWS:,} rows" in said
    assert "split into 2 parts" in said, "a core of each worker"
    script = str(job.parent / "queries.sql")
    assert main(["eval", script, "--data", str(folder / "data"), "--out", str(folder / "expected")]) == 0
    for name in ("large_trades", "busiest", "movers"):
        ours, theirs = rows_in(job.parent / "results" / name), rows_in(folder / "expected" / f"{name}.parquet")
        assert ours
        assert [row.keys() for row in ours] == [row.keys() for row in theirs]
        for mine, other in zip(ours, theirs, strict=True):
            assert [is_same(mine[column], other[column]) for column in other] == [True] * len(other), name


def test_a_driver_that_workers_can_not_reach_says_so_and_can_be_stopped(spark_cluster: Cluster, folder: Path) -> None:
    address = '[spark]\n"spark.driver.host" = "127.0.0.1"\n'
    job = write_job(folder / "unreachable", spark_cluster.master, "reducers = 2", address)
    driver = spark_cluster.start_driver("run", str(job))
    said: list[str] = []
    with ended_in_time(driver):
        assert driver.stderr is not None
        for line in driver.stderr:
            said.append(line)
            if "a signal to stop ends it" in line:
                driver.send_signal(signal.SIGTERM)
    assert driver.returncode == 0, said
    assert "can't reach this process at 127.0.0.1:" in "".join(said)
    assert "since no executor runs the step" in "".join(said)
    assert not list((job.parent / "state").glob("*/commits/0*"))


def test_a_state_that_workers_can_not_see_is_named(spark_cluster: Cluster, folder: Path) -> None:
    job = write_job(folder / "unshared", spark_cluster.master)
    job.write_text(job.read_text().replace('state = "state"', f'state = "{folder / "hidden" / "state"}"'))
    driver = spark_cluster.start_driver("run", str(job), "--bounded")
    _, said = driver.communicate(timeout=END_S)
    assert driver.returncode == 1, said
    assert "error[state-unreachable]" in said
    assert "hint: driver and workers must see" in said
