"""What steps take of the source: units by the number of tasks, and footers that are read while a step runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.step import input as step_input
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.input import FileIntake, default_step_bytes
from headrace.engine.step.level1_task import map_units
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input
from headrace.inputs import BadFile, Source
from headrace.inputs.readers import read_footer
from headrace.model.errors import UsageError
from headrace.sql import format_stream
from headrace.storage.directory import prepare
from headrace.storage.seen_files import SeenFiles
from tests.engine.files import CATALOG, batches, check_results, make_stepper, run_all, write_input, write_inputs
from tests.engine.stories import without_sync

ALL = 1 << 30


def make_intake(root: Path, on_bad_file: str = "stop", file_format: str = "parquet") -> FileIntake:
    source = Source(str(root / "input"), file_format)
    directory = prepare(root / "state", format_stream(CATALOG.streams[0]))
    setting = StreamSetting(uuid4().hex, str(directory.root), CATALOG, "r", source, on_bad_file)
    return FileIntake(setting, SeenFiles(directory, None))


def wait_for(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.002)


def prefetch_all(intake: FileIntake, count: int) -> None:
    """Let the prefetch read footers, until it has kept this many."""
    with intake.prefetch(()):
        wait_for(lambda: intake.footers is not None and len(intake.footers.kept) == count)


def part(root: Path, number: int) -> Path:
    return root / "input" / f"part-{number:04}.parquet"


def spoil(path: Path) -> bytes:
    """Make a file unreadable that looks the same; return what was in it."""
    whole = path.read_bytes()
    overwrite(path, b"\0" * len(whole))
    return whole


def overwrite(path: Path, data: bytes) -> None:
    modified_ns = path.stat().st_mtime_ns
    path.write_bytes(data)
    os.utime(path, ns=(modified_ns, modified_ns))


@contextmanager
def count_opened() -> Iterator[Counter[str]]:
    """Count how often the driver reads the footer of each file."""
    opened: Counter[str] = Counter()

    def count(source: Any, file: Any, stream: Any) -> Any:
        opened[Path(file.path).name] += 1
        return read_footer(source, file, stream)

    with patch("headrace.inputs.footers.read_footer", count):
        yield opened


# Units


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 40), st.integers(0, 99))
def test_results_do_not_depend_on_the_tasks(tasks: int, seed: int) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        without_sync(),
        patch("headrace.inputs.readers.MIN_UNIT_BYTES", 1),
        patch("headrace.engine.step.runner.map_units", wraps=map_units) as mapped,
    ):
        root = Path(folder)
        for number, rows in enumerate(batches(4, seed)):
            write_input(root / "input", rows, number)
            table = pq.read_table(part(root, number))
            pq.write_table(table, part(root, number), row_group_size=1)
            os.utime(part(root, number), ns=(number * 10**9, number * 10**9))
        run_all(root, tasks=tasks)
        check_results(root, 4, seed)
    assert mapped.call_count >= 2 * min(tasks, 12)


def test_more_tasks_have_smaller_units_and_larger_steps(tmp_path: Path) -> None:
    """Files with holes: 700 MiB each."""
    (tmp_path / "input").mkdir()
    for name in ("a", "b"):
        (tmp_path / "input" / name).write_text(json.dumps({"t": "2026-01-01"}) + "\n")
        os.truncate(tmp_path / "input" / name, 700 << 20)
    intake = make_intake(tmp_path, file_format="json")
    few, many = (intake.take(default_step_bytes(tasks), tasks) for tasks in (2, 64))
    assert [len(taken.files) for taken in (few, many)] == [1, 2]
    assert [taken.is_more for taken in (few, many)] == [True, False]
    assert [round(taken.units[0].size / (1 << 20), 1) for taken in (few, many)] == [31.8, 5.5]
    assert sum(unit.size for unit in many.units) == 2 * (700 << 20)


def test_the_default_size_of_a_step() -> None:
    assert default_step_bytes(1) == default_step_bytes(32) == 1 << 30
    assert default_step_bytes(100) == 100 * (32 << 20)


# Prefetch


def test_no_footer_is_read_twice(tmp_path: Path) -> None:
    write_inputs(tmp_path, 4)

    class Patient(InProcess):
        """Runs a step when the footers of the next are there."""

        def run(self, *arguments: Any) -> Any:
            wait_for(lambda: len(opened) == 4)
            return super().run(*arguments)

    with count_opened() as opened:
        stepper = make_stepper(tmp_path)
        stepper.runner = Patient(2)
        for step in range(1, 5):
            assert stepper.step(Input()) is not None
            journal = stepper.directory.journal(step)
            assert journal is not None
            assert [Path(file.path).name for file in journal.files] == [f"part-{step - 1:04}.parquet"]
        stepper.close()
    assert set(opened.values()) == {1}


def test_a_file_that_comes_while_a_step_runs_is_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_input, "PAUSE_S", 0)
    write_inputs(tmp_path, 1)
    intake = make_intake(tmp_path)
    running = intake.take(ALL, 2).files
    with intake.prefetch(running):
        write_input(tmp_path / "input", batches(2)[1], 1)
        wait_for(lambda: intake.footers is not None and len(intake.footers.kept) == 2)
    spoil(part(tmp_path, 1))
    assert len(intake.take(ALL, 2).units) == 2


def test_a_step_takes_what_is_there_when_it_begins(tmp_path: Path) -> None:
    write_inputs(tmp_path, 3)
    intake = make_intake(tmp_path)
    prefetch_all(intake, 3)
    part(tmp_path, 0).unlink()
    write_input(tmp_path / "input", batches(1)[0] * 2, 1)
    write_input(tmp_path / "input", batches(1)[0], 3)
    taken = intake.take(ALL, 2)
    assert [Path(file.path) for file in taken.files] == [part(tmp_path, number) for number in (1, 2, 3)]
    assert [unit.rows for unit in taken.units] == [24, 12, 12]


def test_a_bad_file_that_was_read_ahead_is_judged_by_the_step(tmp_path: Path) -> None:
    write_inputs(tmp_path, 3)
    whole = {number: spoil(part(tmp_path, number)) for number in (0, 2)}
    stops, intake = make_intake(tmp_path), make_intake(tmp_path, "quarantine")
    prefetch_all(stops, 1)
    prefetch_all(intake, 1)
    with pytest.raises(BadFile, match=r"part-0000.parquet: is damaged"):
        stops.take(ALL, 2)
    taken = intake.take(ALL, 2)
    assert [Path(file.path) for file in taken.bad] == [part(tmp_path, 0), part(tmp_path, 2)]
    assert all(file.reason.startswith("is damaged: ") for file in taken.bad)
    assert [Path(file.path) for file in taken.files] == [part(tmp_path, number) for number in range(3)]
    assert [unit.path for unit in taken.units] == [str(part(tmp_path, 1))]
    overwrite(part(tmp_path, 0), whole[0])
    assert [Path(file.path) for file in intake.take(ALL, 2).bad] == [part(tmp_path, 2)]


def test_a_problem_of_the_prefetch_is_met_by_the_step(tmp_path: Path) -> None:
    intake = make_intake(tmp_path)
    with intake.prefetch(()):
        wait_for(lambda: intake.thread is not None and not intake.thread.is_alive())
    with pytest.raises(UsageError, match="does not exist"):
        intake.take(ALL, 2)
    write_inputs(tmp_path, 1)
    assert len(intake.take(ALL, 2).files) == 1


def test_threads_end_with_the_stepper(tmp_path: Path) -> None:
    write_inputs(tmp_path, 3)
    stepper = make_stepper(tmp_path)
    with stepper.intake.prefetch(()):
        stepper.close()
        assert not {"prefetch", "footers"} & {thread.name for thread in threading.enumerate()}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_takes_files_too(tmp_path: Path) -> None:
    """Also if a thread that it does not have held a lock just then."""
    write_inputs(tmp_path, 3)
    intake = make_intake(tmp_path)
    with intake.prefetch(()), intake.stop._cond:  # type: ignore[attr-defined]
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            taken = intake.take(ALL, 2)
            intake.close()
            os._exit(0 if len(taken.units) == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0
    intake.close()


HANGS = """
import sys
from pathlib import Path
from threading import Event, Semaphore

from headrace.inputs import footers
from tests.engine.test_file_intake import make_intake

def read_footer(_source, file, _stream):
    if not file.path.endswith("0000.parquet"):
        hanging.release()
        Event().wait()


hanging = Semaphore(0)
footers.read_footer, footers.SLOW_S = read_footer, -1.0
with make_intake(Path(sys.argv[1])).prefetch(()):
    hanging.acquire()
    hanging.acquire()
"""


def test_a_file_system_that_hangs_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    """Nor do the threads that read beside the prefetch: of three files one is read, and two hang."""
    write_inputs(tmp_path, 3)
    subprocess.run([sys.executable, "-c", HANGS, str(tmp_path)], check=True, timeout=120)
