"""A job on a cluster whose state is in a store, looked at from outside: its results, and the names of its objects.

Driver, master, workers and store have network namespaces of their own. The workers see nothing of the driver but the
input: the driver alone writes results.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.faults.cluster import Cluster, StoreNode, network, start_cluster, start_store
from tests.faults.job import BEGIN_US, LATENESS_S, PROJECT, RESULT_FILE, SECOND_US, Job, compare
from tests.faults.results import Watcher, visible_files
from tests.faults.runs import IN_PROCESS, ON_SPARK, PATIENCE_S, Run, environment, wait_for
from tests.faults.s3 import BUCKET, SERVERS_OWN

WORKERS = ("worker1", "worker2")
SPARE = "worker3"
"""A node whose worker is started by a test."""
NODES = ("master", "driver", "driver2", "store", *WORKERS, SPARE)
FOLDERS = ("driver", "results", "store", "input")
HIDDEN = ("driver", "results", "store")
"""Those that workers find empty."""
AHEAD = 4
"""Files that wait while others are answered."""
BEHIND_S = LATENESS_S + 2
"""Windows that end this long before the last file are answered: lateness, and the slide of the query `counts`."""
SETTINGS = {"spark.executor.memory": "512m", "spark.cores.max": "2"}


class ClusterJob(Job):
    """A job whose progress shows in its results."""

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        places = {"results": str(folder / "results" / name), "input": str(folder / "input" / name)}
        super().__init__(folder / "driver" / name, seed=seed, state=f"s3://{BUCKET}/{name}", **places)
        self.root.mkdir(parents=True)
        self.sight: tuple[str, int] = "", 0

    @property
    def step(self) -> int:
        """The last step that has results."""
        matches = (RESULT_FILE.match(path.name) for path in visible_files(self.results))
        return max((int(match["step"]) for match in matches if match is not None), default=0)

    @property
    def answered_s(self) -> int:
        """Up to where windows of the query `counts` are answered, in seconds of the input."""
        newest = max((path.name for path in visible_files(self.results / "counts")), default="")
        if newest and newest != self.sight[0]:
            ends = pq.read_table(self.results / "counts" / newest)["window_end"].cast("int64")
            self.sight = newest, (pc.max(ends).as_py() - BEGIN_US) // SECOND_US
        return self.sight[1]


class Place:
    """A cluster with a store, and the folder of all files."""

    def __init__(self, cluster: Cluster, store: StoreNode, folder: Path) -> None:
        self.cluster = cluster
        self.store = store
        self.folder = folder

    def count_objects(self, job: str) -> Counter[str]:
        """Return the number of a job's objects in each folder of its state."""
        root = self.store.folder / BUCKET / job
        paths = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
        return Counter(str(path.parent) for path in paths if SERVERS_OWN not in path.parts)


@contextmanager
def open_place(folder: Path) -> Iterator[Place]:
    """Make the namespaces, and start the store, the master and two workers."""
    for name in FOLDERS:
        (folder / name).mkdir()
    with network(NODES) as nodes, start_store(nodes, folder / "store" / "data") as store:
        hidden = [folder / name for name in HIDDEN]
        with start_cluster(nodes, folder, WORKERS, hidden=hidden, variables=store.variables) as cluster:
            yield Place(cluster, store, folder)


class Stage:
    """A job on a place, its runs, and one who watches its results."""

    def __init__(self, place: Place, name: str, seed: int = 1, settings: Mapping[str, str] | None = None) -> None:
        self.place = place
        self.name = name
        self.job = ClusterJob(place.folder, name, seed)
        self.job.write(
            trigger="50 ms", master=place.cluster.master, step_bytes=1, settings={**SETTINGS, **(settings or {})}
        )
        self.watcher = Watcher(self.job.results)
        self.runs: list[Run] = []

    # Runs

    def start(self, *options: str, module: str = ON_SPARK, node: str = "driver") -> Run:
        prefix = self.place.cluster.network.command(node, [])
        run = Run(self.job, *options, module=module, variables=self.place.store.variables, prefix=prefix)
        self.runs.append(run)
        return run

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another command of `headrace` on the driver's node to its end."""
        return subprocess.run(
            self.place.cluster.network.command("driver", [sys.executable, "-m", "headrace", *arguments]),
            cwd=PROJECT,
            env=environment(self.place.store.variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def close(self) -> None:
        for run in self.runs:
            run.kill()

    # Progress

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait; the last run must not end meanwhile."""
        run = self.runs[-1]
        wait_for(lambda: condition() or not run.is_running, f"{what}: {run.text[-2_000:]}", self.watcher.look)
        assert run.is_running, run.text[-4_000:]

    def wait_for_answers(self, ahead: int = 0) -> None:
        """Wait until all is answered but the last files."""
        until_s = self.job.files - BEHIND_S - ahead
        self.wait_for(lambda: self.job.answered_s >= until_s, f"windows up to {until_s} s")

    def start_streaming(self, files: int) -> Run:
        """Start a run, and wait until it has answered windows and keeps others open."""
        assert files > BEHIND_S
        run = self.start()
        self.job.feed(files)
        self.wait_for_answers()
        return run

    def advance(self, files: int) -> None:
        """Let files arrive, one by one, as fast as they are answered."""
        for _ in range(files):
            self.job.feed()
            self.wait_for_answers(AHEAD)

    # The end

    def finish(self, run: Run, kinds: Counter[str] | None = None) -> Counter[str]:
        """Stop a run, and read the input to its end: all is as DuckDB says, and nothing is left behind.

        The last two runs are without Spark, which are quick. `kinds` are the objects that an undisturbed run leaves.
        """
        assert run.stop() == 0, run.text[-4_000:]
        for _ in range(2):
            last = self.start("--bounded", module=IN_PROCESS)
            assert last.wait() == 0, last.text[-4_000:]
        self.watcher.look(thorough=True)
        assert not self.watcher.problems
        found = compare(self.job)
        assert (found.differences, found.missing) == ([], [])
        assert found.windows > self.job.files / 2
        return self.check_objects(kinds)

    def check_objects(self, kinds: Counter[str] | None) -> Counter[str]:
        """Return how many objects, and files that readers skip, are left in each folder.

        Only folders that have one for each step may have more than an undisturbed run leaves.
        """
        left = self.place.count_objects(self.name) + count_hidden(self.job.results)
        if kinds is not None:
            more = {folder: count for folder, count in left.items() if count > kinds[folder]}
            assert {folder: count for folder, count in more.items() if kinds[folder] < self.job.files / 2} == {}
        return left


def count_hidden(results: Path) -> Counter[str]:
    """Return the number of files in each folder of results that begins with a dot, or whose names do."""
    paths = (path.relative_to(results) for path in results.rglob("*") if path.is_file())
    return Counter(f"results: {path.parent}" for path in paths if any(part.startswith(".") for part in path.parts))
