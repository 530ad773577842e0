"""Files and static DataFrames over a real Spark Connect server; streaming DataFrames are refused."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from tests.faults.requirements import require
from tests.spark.connect_client import QUERIES, plain_rows

START_S = 120
NEEDED = ("grpc", "grpc_status", "google.rpc")
ROWS = pa.table(
    {
        "t": pa.array([second * 1_000_000 for second in range(60)], pa.timestamp("us", tz="UTC")),
        "k": [second % 3 for second in range(60)],
        "x": [second % 7 for second in range(60)],
    }
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    missing = [name for name in NEEDED if find_spec(name.partition(".")[0]) is None]
    require("connect", f"{', '.join(missing)} can't be imported: pip install 'pyspark[connect]'" if missing else None)
    import pyspark

    home = Path(pyspark.__file__).parent
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    command = [str(home / "bin" / "spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [
        "--master",
        "local[2]",
        *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
    ]
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=tmp_path)
    try:
        until = time.monotonic() + START_S
        while time.monotonic() < until and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        else:
            pytest.fail(f"the server did not start:\n{(tmp_path / 'server.log').read_text()[-2_000:]}")
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.slow
def test_files_and_static_dataframes_are_answered_over_connect(server: str, tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    pq.write_table(ROWS, tmp_path / "input" / "rows.parquet")
    client = Path(__file__).with_name("connect_client.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, str(client), server, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    expected = {name: plain_rows(table) for name, table in headrace.aggregate(ROWS, QUERIES, name="S").items()}
    assert all(expected.values())
    assert answers == {"files": expected, "frames": expected, "refused": "connect"}
