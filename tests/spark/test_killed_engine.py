"""An engine on Spark that is killed with its JVM again and again: who reads its results meanwhile never sees a window
twice, and in the end they are the reference's.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.kernel import interchange
from headrace.kernel.interchange import node_id
from headrace.model.errors import HeadraceError
from headrace.spark import disk
from headrace.spark.directory import open_directory
from headrace.spark.registry import ask, requests
from headrace.spark.slices import CACHE
from headrace.spark.stepping import Stepper
from tests.spark.files import LATER, batches, check_results, make_stepper, run_all, write_input

PROJECT = Path(__file__).parents[2]
FILES = 50
PATIENCE_S = 180.0
"""How long a step may take; a session takes ten seconds to start, or more where others work too."""
STEP_S = 0.4
"""About as long as a step takes: a kill comes at a random moment of it."""
WITH_STEP = """
    SELECT * EXCLUDE (filename), CAST(regexp_extract(filename, 'step-(\\d+)', 1) AS BIGINT) AS step
    FROM read_parquet(?, filename = true)
"""
GROUPS: dict[str, list[str]] = {"counts": [], "groups": ["k"], "best": ["k"], "later": ["k"]}
"""What names a row within a window, of each query."""


@contextmanager
def told_with(seed: int) -> Iterator[None]:
    """What goes wrong says with which seed."""
    print("seed", seed)
    try:
        yield
    except BaseException as problem:
        problem.add_note(f"seed {seed}")
        raise


class Child:
    """The engine in a process group of its own. What it prints goes to a file, what Spark spills beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "child.log"
        scratch = root / "scratch"
        scratch.mkdir(exist_ok=True)
        places = {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.engine_child", str(root)],
                cwd=PROJECT,
                env={**os.environ, **places},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Python. The JVM, in a session of its own, notices that it is gone, and Spark's workers that the JVM is."""
        if self.is_running:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def newest(folder: Path, pattern: str) -> int:
    """The highest number that a file is named by."""
    return max((int(path.stem) for path in folder.glob(pattern)), default=0)


class Job:
    """The state of the job, looked at from outside."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "state" / "r"

    @property
    def step(self) -> int:
        return newest(self.state / "commits", "[0-9]*.json")

    @property
    def owner(self) -> int:
        return newest(self.state / "epochs", "[0-9]*")

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """As long as there is a step now and then."""
        step, until = self.step, time.monotonic() + PATIENCE_S
        while not condition():
            if self.step > step:
                step, until = self.step, time.monotonic() + PATIENCE_S
            assert time.monotonic() < until, f"nothing came after step {step}"
            time.sleep(0.005)

    def kill_on_the_way(self, source: random.Random, steps: int) -> None:
        """Run it for some steps more, or for none but until it owns the state, and a moment; then kill it."""
        step, owner = self.step, self.owner
        wanted = source.randint(0 if step else 1, steps)
        child = Child(self.root)
        try:
            self.wait_for(lambda: not child.is_running or (self.owner > owner and self.step >= step + wanted))
            time.sleep(source.random() * STEP_S)
            assert child.is_running, f"it ended by itself: {child.log.read_text()}"
        finally:
            child.kill()
        print(f"killed after step {self.step}, {wanted} more were waited for")

    def run_to_the_end(self) -> None:
        child = Child(self.root)
        try:
            self.wait_for(lambda: not child.is_running)
        finally:
            child.kill()
        assert child.process.returncode == 0, child.log.read_text()


# A reader


class Reader:
    """Reads all results again and again in a thread, as anyone may who knows nothing but the folder."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.rounds = 0
        self.problems: list[str] = []
        self.seen: dict[str, set[tuple[Any, ...]]] = {name: set() for name in GROUPS}
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.read)

    def __enter__(self) -> Reader:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()

    def read(self) -> None:
        with duckdb.connect(config={"threads": 1}) as database:
            while not self.done.is_set() and not self.problems:
                for name, groups in GROUPS.items():
                    try:
                        self.look(name, groups, database)
                    except Exception as problem:  # noqa: BLE001 - a reader must not fail, whatever the engine does
                        self.problems.append(f"{name}: {problem!r}")
                self.rounds += 1
                self.done.wait(0.3)

    def read_once_more(self) -> None:
        """A round that begins now comes to its end."""
        wanted = self.rounds + 2
        while self.rounds < wanted and self.thread.is_alive():
            self.thread.join(0.01)

    def look(self, name: str, groups: list[str], database: duckdb.DuckDBPyConnection) -> None:
        files = sorted((self.results / name).glob("*.parquet"))
        if not files:
            return
        key = ["window_start", "window_end", *groups]
        with_arrow = pa.concat_tables([with_step(path) for path in files])
        with_duckdb = database.sql(WITH_STEP, params=[str(self.results / name / "*.parquet")]).to_arrow_table()
        for table in (with_arrow, with_duckdb):
            self.check(name, key, table)
        shown = {tuple(row.values()) for row in with_arrow.to_pylist()}
        if not self.seen[name] <= shown:
            self.problems.append(f"{name}: {self.seen[name] - shown} was shown and is not there any more")
        self.seen[name] = shown

    def check(self, name: str, key: list[str], table: pa.Table) -> None:
        """No row of a window twice, and all of them from one step."""
        rows = table.group_by(key).aggregate([([], "count_all")])
        steps = table.group_by(["window_start", "window_end"]).aggregate([("step", "count_distinct")])
        for found, column in ((rows, "count_all"), (steps, "step_count_distinct")):
            twice = [row for row in found.to_pylist() if row[column] != 1]
            if twice:
                self.problems.append(f"{name}: {twice}")


def with_step(path: Path) -> pa.Table:
    table = pq.read_table(path)
    return table.append_column("step", pa.repeat(int(path.stem.split("-")[1]), table.num_rows))


def killed_again_and_again(root: Path, kills: int, steps: int) -> None:
    """Up to so many steps between two kills. A query is asked for after the first one, while no engine runs."""
    seed = int.from_bytes(os.urandom(4), "big")
    source = random.Random(seed)
    for number, rows in enumerate(batches(FILES)):
        write_input(root / "input", rows, number)
    job = Job(root)
    with told_with(seed):
        with Reader(root / "results") as reader:
            for number in range(kills):
                job.kill_on_the_way(source, steps)
                if number == 0:
                    for name, sql in LATER.items():
                        ask(open_directory(job.state), "add", name, sql)
            job.run_to_the_end()
            assert reader.rounds > 2 * kills, f"it read while the engine ran, seed {seed}"
            reader.read_once_more()
        assert not reader.problems, f"{reader.problems}, seed {seed}"
        assert job.step >= FILES, f"every file was a step, seed {seed}"
        assert all(reader.seen.values()), f"it saw results of every query, seed {seed}"
        check_results(root, FILES)


@pytest.mark.jvm
def test_an_engine_is_killed_twice(tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, kills=2, steps=16)


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.parametrize("story", range(4))
def test_an_engine_is_killed_many_times(story: int, tmp_path: Path) -> None:
    """Twenty times in all."""
    killed_again_and_again(tmp_path, kills=5, steps=7)


# What the next engine finds


def test_partials_of_nodes_with_other_ids_are_not_passed_over(tmp_path: Path) -> None:
    """Another version of the program may describe nodes in other words. What was kept is read, or there is an error."""
    for number, rows in enumerate(batches(8)):
        write_input(tmp_path / "input", rows, number)

    def stop_early(stepper: Stepper) -> None:
        if stepper.number == 5:
            raise KeyboardInterrupt

    with patch("os.fsync"):
        with pytest.raises(KeyboardInterrupt):
            run_all(tmp_path, stop_early)
        CACHE.held.clear()
        try:
            with patch.object(interchange, "node_id", lambda stream, node: node_id(stream, node)[::-1]):
                run_all(tmp_path)
        except HeadraceError:
            return
        finally:
            CACHE.held.clear()
    check_results(tmp_path, 8)


def test_a_request_is_written_while_an_engine_starts(tmp_path: Path) -> None:
    """What an engine that died left half written is deleted, but not what another process is about to leave."""
    write_input(tmp_path / "input", batches(1)[0], 0)
    first = make_stepper(tmp_path)
    first.close()
    written = disk.write_whole

    def written_and_started(path: Path, data: bytes, **how: bool) -> None:
        written(path, data, **how)
        if path.parent.name == "inbox":
            make_stepper(tmp_path).close()

    with patch.object(disk, "write_whole", written_and_started):
        ask(first.directory, "add", "later", LATER["later"])
    assert [request.name for request in requests(first.directory)] == ["later"]
