"""The Java that Spark would start, and its version. This module must work without PySpark: `doctor` uses it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from headrace.model.errors import UsageError

SUPPORTED = (17, 21)
NEEDED = f"The Spark part needs Java {' or '.join(map(str, SUPPORTED))}: install a JDK or set JAVA_HOME."
OWN_SPARK = ("SPARK_HOME", "SPARK_CONF_DIR")

Run = Callable[[Sequence[str]], str | None]
"""Run a program, and return what it prints on both outputs; None if it can't be run or fails."""


class Java(NamedTuple):
    """A program, if there is one, and its feature release, if it runs."""

    path: str | None
    major: int | None

    def __str__(self) -> str:
        if self.path is None:
            return "not found"
        return f"{self.path} does not run" if self.major is None else f"{self.major} at {self.path}"


def find_java(environment: Mapping[str, str], run: Run) -> Java:
    """Look where Spark looks: JAVA_HOME before PATH."""
    home = environment.get("JAVA_HOME")
    path = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH"))
    return Java(path, None if path is None else java_major(run([path, "-version"]) or ""))


def java_major(output: str) -> int | None:
    """Return the feature release in what `java -version` prints; Java 8 calls itself 1.8."""
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else None


def run_program(command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def names_own_spark(environment: Mapping[str, str]) -> bool:
    """Return whether the user has a Spark with its own settings, which may choose another Java and its logging."""
    return any(environment.get(name) for name in OWN_SPARK)


def check_java(environment: Mapping[str, str], run: Run = run_program) -> None:
    """Refuse a Java that can't run Spark. One that is newer than those we test may do."""
    if names_own_spark(environment):
        return
    java = find_java(environment, run)
    if java.major is None or java.major < SUPPORTED[0]:
        raise UsageError("java", f"Spark can't start without its Java: {java}", hint=NEEDED)
