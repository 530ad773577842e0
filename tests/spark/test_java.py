"""Which Java is found, and what is told instead of starting Spark without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.model.errors import UsageError
from headrace.spark.java import check_java, java_major, run_program

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)\n'


@pytest.mark.parametrize(
    ("output", "major"),
    [
        (JAVA_17, 17),
        (f"Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n{JAVA_17}", 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19 LTS', 21),
        ("Unable to locate a Java Runtime.", None),
    ],
)
def test_the_major_version(output: str, major: int | None) -> None:
    assert java_major(output) == major


def test_run_program() -> None:
    assert run_program(["sh", "-c", "echo out; echo err >&2"]) == "out\nerr\n"
    assert run_program(["sh", "-c", "exit 3"]) is None
    assert run_program(["/no/such/program"]) is None


@pytest.mark.parametrize("major", [8, 11, 17, 21, 25])
def test_what_is_too_old_is_refused_and_what_is_newer_may_try(major: int, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{major}.0.1\"' >&2\n")
    java.chmod(0o755)
    if major >= 17:
        check_java({"JAVA_HOME": str(tmp_path)})
    else:
        with pytest.raises(UsageError, match=f"without its Java: {major} at {java}") as problem:
            check_java({"JAVA_HOME": str(tmp_path)})
        assert problem.value.hint == "The Spark part needs Java 17 or 21: install a JDK or set JAVA_HOME."


def test_a_spark_of_ones_own_may_choose_its_java(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not found"):
        check_java({"PATH": str(tmp_path)})
    check_java({"PATH": str(tmp_path), "SPARK_HOME": "/opt/spark"})


def test_without_java_a_session_says_so_and_nothing_else() -> None:
    """In a process of its own: this one may have a JVM."""
    script = "from headrace.spark.session import start_session; start_session('local[1]')"
    environment = {**os.environ, "JAVA_HOME": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-2:] == [
        "headrace.model.errors.UsageError: error[java]: Spark can't start without its Java: "
        "/nonexistent/bin/java does not run",
        "hint: The Spark part needs Java 17 or 21: install a JDK or set JAVA_HOME.",
    ]
    assert "GATEWAY" not in done.stderr
