"""The processes of a run, found below the one that was started: driver, JVM and Python workers (Linux: /proc)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
GONE = "ZX"
"""States of a process that has ended: nobody has waited for it yet."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process. Its number may be used again, together with the time of its start it is not."""

    pid: int
    start_ticks: int
    parent: int
    name: str
    state: str

    @property
    def is_alive(self) -> bool:
        now = process_of(self.pid)
        return now is not None and now.start_ticks == self.start_ticks and now.state not in GONE

    def send(self, number: int) -> bool:
        """Send a signal if it is still this process."""
        if not self.is_alive:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> bool:
        return self.send(signal.SIGKILL)


def process_of(pid: int) -> Process | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in brackets and may hold anything.
    head, _, rest = text.rpartition(")")
    fields = rest.split()
    return Process(pid, int(fields[19]), int(fields[1]), head.partition("(")[2], fields[0])


def all_processes() -> Iterator[Process]:
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (found := process_of(int(entry.name))) is not None:
            yield found


def descendants(pid: int) -> list[Process]:
    """Everything below a process that lives, parents first."""
    children: dict[int, list[Process]] = {}
    for process in all_processes():
        if process.state not in GONE:
            children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(0), [])
        found += below
        waiting += [process.pid for process in below]
    return found


def targets(pid: int) -> dict[str, list[Process]]:
    """What can be killed of a run whose driver is `pid`: workers are what Spark's daemon forked, not the daemon."""
    driver = process_of(pid)
    below = descendants(pid)
    java = [process for process in below if process.name == "java"]
    daemons = {process.pid for process in below if process.parent in {each.pid for each in java}}
    return {
        "driver": [driver] if driver is not None and driver.is_alive else [],
        "jvm": java,
        "worker": [process for process in below if process.parent in daemons],
    }
