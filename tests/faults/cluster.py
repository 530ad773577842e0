"""A standalone Spark cluster on this machine, each part in a network namespace of its own: an address that others
reach, a loopback that they do not. An S3 store may be one of the parts.

The bridge between them is in a namespace too, so that the machine's own network is never touched. Needs root.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

from tests.faults.processes import Process, targets
from tests.faults.requirements import require
from tests.faults.s3 import ProxyControl, client_environment, require_server, start_server

PROJECT = Path(__file__).parents[2]
MASTER_PORT = 7077
STORE_PORT = 9000
SERVER_PORT = 9001
"""The S3 server itself listens on the loopback of its node, where only the proxy reaches it."""
START_S = 180.0
END_S = 60.0
NUMBERS = count(1)
"""Of the networks of this process."""


@cache
def why_no_namespaces() -> str | None:
    """Return why no network namespace can be made here, or None if one can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need Linux and root"
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "there is no ip or no unshare (iproute2, util-linux)"
    probe = f"headrace-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"no network namespace can be made: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return None


@cache
def why_no_cluster() -> str | None:
    """Return why no master and no worker can be started here, or None if they can."""
    from headrace.model.errors import UsageError
    from headrace.spark.java import check_java

    try:
        check_java(os.environ)
    except UsageError as problem:
        return problem.message
    return None if (spark_home() / "bin" / "spark-class").exists() else "this PySpark has no spark-class"


def require_cluster() -> None:
    """Skip the test where there can be no cluster."""
    require("netns", why_no_namespaces())
    require("cluster", why_no_cluster())


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def wait_until(condition: Callable[[], bool], what: str, seconds: float = START_S) -> None:
    until_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until_s, f"after {seconds:.0f} s: {what}"
        time.sleep(0.1)


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# Namespaces


@dataclass(frozen=True)
class Network:
    """Namespaces at one bridge, 10.77.0.1 and so on; `name` keeps them apart from those of other tests."""

    name: str
    nodes: tuple[str, ...]

    def space(self, node: str) -> str:
        return f"{self.name}-{node}"

    def address(self, node: str) -> str:
        return f"10.77.0.{self.nodes.index(node) + 1}"

    def command(self, node: str, arguments: Sequence[str], hidden: Sequence[Path] = ()) -> list[str]:
        """Return the command line that runs a program there; it finds the hidden folders empty.

        Each program in it is replaced by the next, so that the number of the process stays.
        """
        inside = ["ip", "netns", "exec", self.space(node)]
        if hidden:
            mounts = " && ".join(f'mount -t tmpfs none "${place}"' for place in range(1, len(hidden) + 1))
            script = f'mount --make-rprivate / && {mounts} && shift {len(hidden)} && exec "$@"'
            inside += ["unshare", "-m", "sh", "-c", script, "sh", *map(str, hidden)]
        return [*inside, *arguments]

    def add(self, node: str) -> None:
        bridge, space, link = self.space("bridge"), self.space(node), f"v{self.nodes.index(node) + 1}"
        run("ip", "netns", "add", space)
        run("ip", "-n", bridge, "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "-n", bridge, "link", "set", link, "master", "br0", "up")
        run("ip", "-n", space, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
        for name in ("lo", "eth0"):
            run("ip", "-n", space, "link", "set", name, "up")

    def processes(self, node: str) -> list[int]:
        listed = subprocess.run(["ip", "netns", "pids", self.space(node)], capture_output=True, text=True, check=False)
        return [int(text) for text in listed.stdout.split()]

    def end_processes(self, node: str) -> None:
        """End what runs there, which is ours."""

        def is_empty() -> bool:
            numbers = self.processes(node)
            for number in numbers:
                try:
                    os.kill(number, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            return not numbers

        wait_until(is_empty, f"processes of {node} do not end", END_S)

    def remove(self, node: str) -> None:
        self.end_processes(node)
        subprocess.run(["ip", "netns", "del", self.space(node)], capture_output=True, check=False)


def list_links() -> set[str]:
    """Return the network links of the machine itself."""
    return {line.split(": ")[1] for line in run("ip", "-o", "link").splitlines()}


@contextmanager
def network(nodes: Sequence[str]) -> Iterator[Network]:
    """Make a namespace for each node, in the order of their addresses; all is gone afterwards."""
    made = Network(f"hr{os.getpid()}-{next(NUMBERS)}", tuple(nodes))
    links = list_links()
    with ExitStack() as undo:
        undo.callback(made.remove, "bridge")
        run("ip", "netns", "add", made.space("bridge"))
        run("ip", "-n", made.space("bridge"), "link", "add", "br0", "type", "bridge")
        run("ip", "-n", made.space("bridge"), "link", "set", "br0", "up")
        for node in nodes:
            undo.callback(made.remove, node)
            made.add(node)
        yield made
    assert made.name not in run("ip", "netns", "list"), "namespaces are left"
    assert list_links() <= links, "links are left"
    assert made.name not in Path("/proc/self/mounts").read_text(), "mounts are left"


# Spark


class Cluster:
    """A master that runs, workers that come and go, and a node for the driver."""

    def __init__(self, network: Network, folder: Path, hidden: Sequence[Path], variables: Mapping[str, str]) -> None:
        self.network = network
        self.logs = folder
        self.hidden = hidden
        self.variables = variables
        self.master = f"spark://{network.address('master')}:{MASTER_PORT}"
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.starts = count(1)

    def start(
        self, node: str, what: str, *arguments: str, hidden: Sequence[Path] = ()
    ) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a part of Spark; return it and its log."""
        log = self.logs / f"{node}-{next(self.starts)}.log"
        home = spark_home()
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments]
        environment = {
            **os.environ,
            **self.variables,
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self.logs / node),
        }
        with log.open("w") as output:
            process = subprocess.Popen(
                self.network.command(node, command, hidden),
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return process, log

    def start_worker(self, node: str, cores: int = 1) -> None:
        """Start a worker and wait until the master knows it."""
        sizes = ["--cores", str(cores), "--memory", "1g", "--work-dir", str(self.logs / node)]
        address = self.network.address(node)
        process, log = self.start(node, "worker.Worker", "--host", address, *sizes, self.master, hidden=self.hidden)
        self.workers[node] = process
        wait_until(
            lambda: "Successfully registered" in log.read_text() or process.poll() is not None,
            f"{node} did not register",
        )
        assert process.poll() is None, log.read_text()[-2_000:]

    def stop_worker(self, node: str, number: int = signal.SIGTERM) -> None:
        """End a worker by a signal. Its executors see that and end too."""
        process = self.workers.pop(node)
        process.send_signal(number)
        process.wait(END_S)
        wait_until(lambda: not self.network.processes(node), f"executors of {node} do not end", END_S)

    def ensure_workers(self, *nodes: str) -> None:
        """Let these workers run, and no other."""
        for node in [name for name in self.workers if name not in nodes]:
            self.stop_worker(node)
        for node in nodes:
            if node not in self.workers or self.workers[node].poll() is not None:
                self.workers.pop(node, None)
                self.network.end_processes(node)
                self.start_worker(node)

    def executors(self, node: str) -> list[Process]:
        return targets(self.workers[node].pid)["jvm"]

    def python_workers(self, node: str) -> list[Process]:
        return targets(self.workers[node].pid)["worker"]

    def count_in_logs(self, text: str) -> int:
        """Return how often a text stands in the logs of all executors so far."""
        return sum(log.read_text(errors="replace").count(text) for log in self.logs.glob("worker*/app-*/*/stderr"))

    def start_driver(self, *arguments: str) -> subprocess.Popen[str]:
        """Run `headrace` on the driver's node. Its output comes in pipes."""
        command = self.network.command("driver", [sys.executable, "-m", "headrace", *arguments])
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, node: str, process: subprocess.Popen[bytes]) -> None:
        self.network.end_processes(node)
        process.wait(END_S)


@contextmanager
def start_cluster(
    network: Network,
    folder: Path,
    workers: Sequence[str],
    *,
    cores: int = 1,
    hidden: Sequence[Path] = (),
    variables: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """Start a master and workers on nodes of a network. The workers find the hidden folders empty."""
    made = Cluster(network, folder, hidden, variables or {})
    with ExitStack() as undo:
        address = network.address("master")
        process, log = made.start("master", "master.Master", "--host", address, "--port", str(MASTER_PORT))
        undo.callback(made.end, "master", process)
        undo.callback(made.ensure_workers)
        wait_until(lambda: "Starting Spark master" in log.read_text(), "the master did not start")
        for node in workers:
            made.start_worker(node, cores)
        yield made


@contextmanager
def cluster(folder: Path, workers: int = 2, cores: int = 1, hidden: Sequence[Path] = ()) -> Iterator[Cluster]:
    """Start a cluster in a network of its own. Its files are below the folder."""
    names = [f"worker{number}" for number in range(1, workers + 1)]
    with (
        network(["master", "driver", *names]) as nodes,
        start_cluster(nodes, folder, names, cores=cores, hidden=hidden) as made,
    ):
        yield made


# The store


@dataclass(frozen=True)
class StoreNode:
    """An S3 store on a node: the variables by which clients find it, the faults of its proxy, its files."""

    variables: Mapping[str, str]
    faults: ProxyControl
    folder: Path


@contextmanager
def start_store(network: Network, folder: Path) -> Iterator[StoreNode]:
    """Start an S3 server on the node `store`, and the proxy through which all others reach it."""
    require_server()
    inside = network.command("store", [])
    address = f"{network.address('store')}:{STORE_PORT}"
    control = ProxyControl(folder.with_suffix(".control"))
    command = [sys.executable, "-m", "tests.faults.s3", f"127.0.0.1:{SERVER_PORT}", address, str(control.path)]
    with ExitStack() as undo:
        for process in (start_server(folder, SERVER_PORT, inside), subprocess.Popen([*inside, *command], cwd=PROJECT)):
            undo.callback(process.wait, END_S)
            undo.callback(process.terminate)
        wait_until(control.is_ready, "the store did not start")
        yield StoreNode(client_environment(f"http://{address}"), control, folder)
    control.path.unlink()
