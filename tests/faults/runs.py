"""Runs of a job in child processes, and requests to them through the command line."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headrace.model.time import EPOCH, MICROSECOND
from tests.faults.job import PROJECT, Job
from tests.faults.processes import Process, process_of, targets

ON_SPARK = "headrace"
IN_PROCESS = "tests.faults.in_process"
"""The module that runs the command line."""
PATIENCE_S = 240.0
"""How long anything may take; a session starts in ten seconds, or in a minute where others work too."""
POLL_S = 0.02
ANSWER = re.compile(
    r"in step (?P<step>\d+), version \d+ of the registry"
    r"(?:; its first complete window is \S+ to (?P<end>[^\s;]+))?"
    r"(?:; (?P<count>[\d,]+) windows (?:up to (?P<until>\S+)|behind it) are left out)?"
)


def wait_for(condition: Callable[[], bool], what: str, meanwhile: Callable[[], None] = lambda: None) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s, f"{what}: not within {PATIENCE_S:.0f} s"
        meanwhile()
        time.sleep(POLL_S)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    paths = [str(PROJECT / "src"), str(PROJECT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "200", **more}


class Run:
    """`headrace run` in a session of its own. What it prints goes to a file."""

    def __init__(
        self,
        job: Job,
        *options: str,
        module: str = IN_PROCESS,
        variables: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """The prefix is a command that replaces itself by another, such as `ip netns exec NAME`."""
        self.job = job
        self.first_step = job.step
        number = len(list(job.root.glob("run-*.log")))
        self.log = job.root / f"run-{number:04}.log"
        self.scratch = job.root / "scratch" / f"{number:04}"
        self.scratch.mkdir(parents=True)
        places = {"TMPDIR": str(self.scratch), "SPARK_LOCAL_DIRS": str(self.scratch)}
        with open(self.log, "wb") as log:
            self.child = subprocess.Popen(
                [*prefix, sys.executable, "-m", module, "run", str(job.file), *options],
                cwd=PROJECT,
                env=environment({**places, **(variables or {})}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.java: list[Process] = []

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def is_running(self) -> bool:
        return self.child.poll() is None

    @property
    def has_committed(self) -> bool:
        """Whether it has committed a step of its own that keeps state."""
        return self.job.step > self.first_step and self.job.is_stateful

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def targets(self) -> dict[str, list[Process]]:
        found = targets(self.pid)
        self.java = found["jvm"] or self.java
        return found

    def stop(self) -> int:
        """Let it finish its step and end."""
        if self.is_running:
            self.child.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        return self.child.wait(PATIENCE_S)

    def kill(self) -> None:
        """End it and everything that it started, whatever state it is in."""
        if self.is_running:
            self.targets()
            self.child.kill()
        self.child.wait(PATIENCE_S)
        for process in self.java:
            process.kill()
        shutil.rmtree(self.scratch, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Answer:
    """The step of a change; and what was announced: the end of the first complete window, and how many windows are
    left out behind it, up to a time or at all.
    """

    step: int
    first_us: int | None
    left_out: int
    left_out_until_us: int | None


class Change:
    """A request to add, replace or drop a query, on its way: a process that waits for the answer of the engine."""

    def __init__(self, job: Job, action: str, name: str, sql: str | None = None) -> None:
        self.name, self.action = name, action
        arguments = ["queries", action, str(job.file), name, *([] if sql is None else [sql])]
        self.child = subprocess.Popen(
            [sys.executable, "-m", "headrace", *arguments, "--wait", str(2 * PATIENCE_S)],
            cwd=PROJECT,
            env=environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    @property
    def is_done(self) -> bool:
        return self.child.poll() is not None

    def answer(self) -> Answer:
        text, _ = self.child.communicate()
        found = ANSWER.search(" ".join(text.split()))
        assert self.child.returncode == 0, f"{self.action} {self.name}: {text}"
        assert found is not None, f"{self.action} {self.name}: {text}"
        count = int((found["count"] or "0").replace(",", ""))
        return Answer(int(found["step"]), microseconds(found["end"]), count, microseconds(found["until"]))

    def kill(self) -> None:
        self.child.kill()
        self.child.communicate()


def microseconds(text: str | None) -> int | None:
    return None if text is None else (datetime.fromisoformat(text) - EPOCH) // MICROSECOND


def still_alive(pid: int, start_ticks: int) -> Process | None:
    """A process that was started by an earlier suite, if it is still the same."""
    found = process_of(pid)
    return found if found is not None and found.start_ticks == start_ticks and found.is_alive else None


def log_of(root: Path) -> str:
    """The end of the newest log, for messages."""
    logs = sorted(root.glob("run-*.log"))
    return logs[-1].read_text(errors="replace")[-4_000:] if logs else ""
