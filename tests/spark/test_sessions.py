"""A session that we start: what its JVM says, and what it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from headrace.spark.sessions import start_session
spark = start_session("local[1]")
log = spark._jvm.org.apache.logging.log4j.LogManager.getLogger("somewhere")
log.warn("a warning")
log.error("an error")
spark.stop()
"""
REMARKS = ("default log4j profile", "adjust logging level", "log level to", "NativeCodeLoader", "a warning")


@pytest.mark.jvm
@pytest.mark.slow
def test_it_tells_errors_and_makes_no_remarks() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert "ERROR somewhere: an error" in done.stderr
    assert [remark for remark in REMARKS if remark in done.stderr] == []
