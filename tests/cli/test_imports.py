"""Commands that run without Java load nothing of Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.wire.exchange import DirectoryExchange
from headrace.wire.orders import Orders
from tests.cli.test_edge import AGENT, FILES

CODE = """
import json, sys
from headrace.cli.main import main
status = main(sys.argv[1:])
assert status == 0, status
print(json.dumps([name for name in sys.modules if name.split(".")[0] in ("headrace", "pyspark", "py4j")]))
"""


@pytest.fixture
def folder(tmp_path: Path, trades: Path) -> Path:
    (tmp_path / "data").symlink_to(trades / "Trades")
    (tmp_path / "schema.sql").write_text((trades / "schema.sql").read_text())
    (tmp_path / "queries.sql").write_text("CREATE QUERY n AS SELECT count(*) AS n FROM Trades [RANGE '1 s'];")
    (tmp_path / "agent.toml").write_text(AGENT.format(source=FILES, more="", ship=""))
    DirectoryExchange(tmp_path / "up").publish(Orders("Trades"))
    return tmp_path


@pytest.mark.parametrize(
    ("command", "loaded"),
    [
        ("eval queries.sql --data {trades}", "headrace.engine.answers"),
        ("edge agent.toml --once", "headrace.edge.agent"),
    ],
    ids=["eval", "edge"],
)
def test_no_module_of_spark_is_loaded(folder: Path, trades: Path, command: str, loaded: str) -> None:
    words = [word.format(trades=trades) for word in command.split()]
    done = subprocess.run([sys.executable, "-c", CODE, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    modules = json.loads(done.stdout.splitlines()[-1])
    assert loaded in modules
    assert [name for name in modules if name.startswith(("pyspark", "py4j", "headrace.spark"))] == []
