"""Disks that fill up, the state's and the results' in turn: the run stops cleanly, and resumes when there is room."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.job import Job, compare
from tests.faults.requirements import mount_tmpfs, require, unmount, why_no_mount
from tests.faults.results import Watcher
from tests.faults.runs import Run, wait_for

DISK_BYTES = 3 << 20
CHUNK = b"x" * 4096
HALF_WRITTEN = re.compile(r"/\.writing-|/\.staged/|/\.step-|\.staged$")


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Two small file systems."""
    require("mount", why_no_mount())
    folders = {name: tmp_path / name for name in ("state", "results")}
    mounted = []
    try:
        for folder in folders.values():
            folder.mkdir()
            mount_tmpfs(folder, DISK_BYTES)
            mounted.append(folder)
        yield folders
    finally:
        for folder in mounted:
            unmount(folder)


def fill(disk: Path) -> Path:
    """Write a file that takes all room that there is."""
    ballast = disk / "ballast"
    try:
        with open(ballast, "wb", buffering=0) as file:
            while file.write(CHUNK) == len(CHUNK):
                pass
    except OSError:
        pass
    return ballast


def test_full_disks_stop_a_run_cleanly_and_it_resumes(tmp_path: Path, disks: dict[str, Path]) -> None:
    """
    room      state is full        room     results are full    room
    steps     stopped: state-write steps    stopped             steps, to the end
    """
    job = Job(tmp_path, state="state/s", results="results/r")
    job.write(trigger="20 ms", step_bytes=1)
    watcher = Watcher(job.results)
    job.feed(3)
    for disk in ("state", "results", "state", "results"):
        run = Run(job)
        try:
            wait_for(lambda run=run: run.has_committed or not run.is_running, "a commit", watcher.look)  # type: ignore[misc]
            assert run.is_running, run.text
            ballast = fill(disks[disk])
            job.feed(6)
            wait_for(lambda run=run: not run.is_running, "a clean stop", watcher.look)  # type: ignore[misc]
            assert run.child.returncode == 1, run.text
            assert "error[state-write]" in run.text
            assert "No space left on device" in run.text
            assert "make room" in run.text
        finally:
            run.kill()
        ballast.unlink()
    last = Run(job, "--bounded")
    assert last.wait() == 0, last.text
    watcher.look(thorough=True)
    assert not watcher.problems
    found = compare(job)
    assert (found.differences, found.missing) == ([], [])
    paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in paths if HALF_WRITTEN.search(str(path))] == []
