"""The command line, but the tasks of a step run in its own process instead of on Spark: a run that starts in a second.

python -m tests.faults.in_process run JOB.toml [--bounded] [--take-over]

HEADRACE_STOP_AT=before:7 or after:7 sends the process SIGSTOP right before, or right after, it commits step 7.
HEADRACE_BEAT=0.2:5 sets the seconds between two signs of life of an owner in a store, and until it is taken for dead.
HEADRACE_KEPT_RECORDS=5 collects garbage with every fifth step, and keeps as many records.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from headrace.cli.main import main
from headrace.engine.step.runner import InProcess
from headrace.spark import engine
from headrace.spark import session as sessions
from headrace.storage import garbage, ownership
from headrace.storage.ownership import Owner

STOP_AT = "HEADRACE_STOP_AT"
BEAT = "HEADRACE_BEAT"
KEPT_RECORDS = "HEADRACE_KEPT_RECORDS"
TASKS = 2


@contextmanager
def no_session(*_: Any, **__: Any) -> Iterator[None]:
    yield None


def stop_at(when: str, step: int) -> Any:
    """Return `Owner.write_commit` with a stop before or after the commit of a step."""
    written = Owner.write_commit

    def write_commit(self: Owner, number: int, data: bytes) -> bool:
        if (when, step) == ("before", number):
            os.kill(os.getpid(), signal.SIGSTOP)
        is_ours = written(self, number, data)
        if (when, step) == ("after", number):
            os.kill(os.getpid(), signal.SIGSTOP)
        return is_ours

    return write_commit


def run_command(arguments: list[str]) -> int:
    with ExitStack() as stack:
        stack.enter_context(patch.object(sessions, "session", no_session))
        stack.enter_context(patch.object(engine, "report_missing_settings"))
        stack.enter_context(patch.object(engine, "SparkRunner", lambda _: InProcess(TASKS)))
        if STOP_AT in os.environ:
            when, _, step = os.environ[STOP_AT].partition(":")
            stack.enter_context(patch.object(Owner, "write_commit", stop_at(when, int(step))))
        if BEAT in os.environ:
            beat_s, _, watched_s = os.environ[BEAT].partition(":")
            stack.enter_context(patch.object(ownership, "BEAT_S", float(beat_s)))
            stack.enter_context(patch.object(ownership, "WATCHED_S", float(watched_s)))
        if KEPT_RECORDS in os.environ:
            stack.enter_context(patch.object(garbage, "KEPT_RECORDS", int(os.environ[KEPT_RECORDS])))
        return main(arguments)


if __name__ == "__main__":
    sys.exit(run_command(sys.argv[1:]))
