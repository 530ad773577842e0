"""A session that we start: what its JVM says, and what it does not; who can reach it and read its files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from headrace.spark.session import start_session
spark = start_session("local[1]")
log = spark._jvm.org.apache.logging.log4j.LogManager.getLogger("somewhere")
log.warn("a warning")
log.error("an error")
spark.stop()
"""
REMARKS = (
    "default log4j profile",
    "adjust logging level",
    "log level to",
    "NativeCodeLoader",
    "incubator",
    "a warning",
)


def test_errors_of_the_jvm_are_shown_and_its_remark_on_modules_is_not() -> None:
    """The remark comes from Java itself, before it reads any setting."""
    program = (
        "import subprocess, sys\n"
        "from headrace.spark.session import filtered_errors\n"
        "lines = 'WARNING: Using incubator modules: jdk.incubator.vector\\nwhat matters'\n"
        "with filtered_errors() as errors:\n"
        "    subprocess.run([sys.executable, '-c', f'import sys; sys.stderr.write({lines!r})'], stderr=errors)\n"
        "import threading\n"
        "for thread in threading.enumerate()[1:]: thread.join(30)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "what matters"


@pytest.mark.jvm
@pytest.mark.slow
def test_it_tells_errors_and_makes_no_remarks() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert "ERROR somewhere: an error" in done.stderr
    assert [remark for remark in REMARKS if remark in done.stderr] == []


DOORS = """
import json, os, socket, stat, struct
from pathlib import Path
from headrace.spark.session import start_session

spark = start_session("local[1]")
context = spark.sparkContext
pairs = context.parallelize([(number % 3, number) for number in range(30)], 2)
assert pairs.reduceByKey(lambda a, b: a + b, 2).count() == 3
root = Path(context.getConf().get("spark.local.dir", "/tmp"))
folder = next(root.glob("blockmgr-*"))
body = b"not an object"
with socket.create_connection(("127.0.0.1", int(context.getConf().get("spark.driver.port"))), 30) as stranger:
    stranger.settimeout(30)
    stranger.sendall(struct.pack(">qbqi", 21 + len(body), 3, 1, len(body)) + body)
    answer = stranger.recv(10_000).decode(errors="replace")
print(json.dumps({
    "answer": answer,
    "folder": str(root),
    "modes": [stat.S_IMODE(path.stat().st_mode) for path in (root, folder, *folder.rglob("*"))],
    "umask of a worker": context.parallelize([0], 1).map(lambda _: os.umask(0o077)).first(),
    "JVM": context._gateway.proc.pid,
    "arguments": Path(f"/proc/{context._gateway.proc.pid}/cmdline").read_text(),
}))
spark.stop()
context._gateway.proc.stdin.close()
context._gateway.proc.wait(60)
"""


@pytest.mark.jvm
@pytest.mark.slow
def test_nobody_else_on_the_machine_reaches_it_or_reads_its_files() -> None:
    done = subprocess.run([sys.executable, "-c", DOORS], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert "NettyRpcEnv" not in found["answer"], "no message is read from a stranger"
    assert len(found["modes"]) > 3
    assert [oct(mode) for mode in found["modes"] if mode & 0o077] == []
    assert found["umask of a worker"] == 0o077
    assert "secret" not in found["arguments"]
    assert not Path(found["folder"]).exists(), "it goes with the JVM"
