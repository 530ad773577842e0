"""A standalone Spark cluster on this machine, each part in a network namespace of its own: an address that others
reach, a loopback that they do not.

The bridge between them is in a namespace too, so that the machine's own network is never touched. Needs root.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

MASTER_PORT = 7077
START_S = 180.0


def missing() -> str | None:
    """Return why there can be no such cluster here; None if there can be one."""
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


def wait_until(condition: Callable[[], bool], what: str, seconds: float = START_S) -> None:
    until_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until_s, f"after {seconds:.0f} s: {what}"
        time.sleep(0.1)


@dataclass(frozen=True)
class Network:
    """Namespaces at one bridge, 10.77.0.1 and so on; `name` tells them from those of other tests."""

    name: str

    def space(self, node: str) -> str:
        return f"{self.name}-{node}"

    def command(self, node: str, arguments: Sequence[str], hidden: Sequence[Path] = ()) -> list[str]:
        """Return the command line that runs a program there; it finds the hidden folders empty."""
        inside = ["ip", "netns", "exec", self.space(node)]
        if hidden:
            mounts = " && ".join(f'mount -t tmpfs none "${place}"' for place in range(1, len(hidden) + 1))
            script = f'mount --make-rprivate / && {mounts} && shift {len(hidden)} && exec "$@"'
            inside += ["unshare", "-m", "sh", "-c", script, "sh", *map(str, hidden)]
        return [*inside, *arguments]

    def add(self, node: str, number: int) -> None:
        bridge, space = self.space("bridge"), self.space(node)
        run("ip", "netns", "add", space)
        run("ip", "-n", bridge, "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "-n", bridge, "link", "set", f"v{number}", "master", "br0", "up")
        run("ip", "-n", space, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            run("ip", "-n", space, "link", "set", link, "up")

    def processes(self, node: str) -> list[int]:
        listed = subprocess.run(["ip", "netns", "pids", self.space(node)], capture_output=True, text=True, check=False)
        return [int(text) for text in listed.stdout.split()]

    def remove(self, node: str) -> None:
        """End what runs there, which is ours, and the namespace."""
        for _ in range(3):
            for process in self.processes(node):
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        subprocess.run(["ip", "netns", "del", self.space(node)], capture_output=True, check=False)


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def network(nodes: Sequence[str]) -> Iterator[Network]:
    """Make a namespace for each node, in the order of their addresses; all is gone afterwards."""
    made = Network(f"hr{os.getpid()}")
    with ExitStack() as undo:
        undo.callback(made.remove, "bridge")
        run("ip", "netns", "add", made.space("bridge"))
        run("ip", "-n", made.space("bridge"), "link", "add", "br0", "type", "bridge")
        run("ip", "-n", made.space("bridge"), "link", "set", "br0", "up")
        for number, node in enumerate(nodes, start=1):
            undo.callback(made.remove, node)
            made.add(node, number)
        yield made


@dataclass(frozen=True)
class Cluster:
    """A master and workers that run, and a node for the driver."""

    network: Network
    master: str
    logs: Path

    def start_driver(self, *arguments: str) -> subprocess.Popen[str]:
        """Run `headrace` on the driver's node. Its output comes in pipes."""
        command = self.network.command("driver", [sys.executable, "-m", "headrace", *arguments])
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextmanager
def cluster(folder: Path, workers: int = 2, cores: int = 1, hidden: Sequence[Path] = ()) -> Iterator[Cluster]:
    """Start a cluster. Its files are below the folder; the workers find the hidden folders empty."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
    names = [f"worker{number}" for number in range(1, workers + 1)]
    with network(["master", "driver", *names]) as made, ExitStack() as undo:

        def start(node: str, what: str, *arguments: str, hidden: Sequence[Path] = ()) -> Path:
            log = folder / f"{node}.log"
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments]
            local = {**environment, "SPARK_LOCAL_DIRS": str(folder / node)}
            with log.open("w") as output:
                process = subprocess.Popen(
                    made.command(node, command, hidden), env=local, stdout=output, stderr=output, start_new_session=True
                )
            undo.callback(process.wait, 60)
            undo.callback(made.remove, node)
            return log

        url = f"spark://10.77.0.1:{MASTER_PORT}"
        log = start("master", "master.Master", "--host", "10.77.0.1", "--port", str(MASTER_PORT))
        wait_until(lambda: "Starting Spark master" in log.read_text(), "the master did not start")
        for place, node in enumerate(names):
            sizes = ["--cores", str(cores), "--memory", "1g", "--work-dir", str(folder / node)]
            log = start(node, "worker.Worker", "--host", f"10.77.0.{place + 3}", *sizes, url, hidden=hidden)
            wait_until(
                lambda log=log: "Successfully registered" in log.read_text(),  # type: ignore[misc]
                f"{node} did not register",
            )
        yield Cluster(made, url, folder)
