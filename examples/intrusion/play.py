"""The whole hierarchy on one machine: python examples/intrusion/play.py SITE [MINUTES]

Starts the root, the relay and the three sensors as processes, kills a sensor in the middle and starts it again, waits
until the root has answered everything, and compares that with all attempts read in one place.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
from attempts import MINUTES, SENSORS, make_site

HEADRACE = (sys.executable, "-m", "headrace")
PATIENCE_S = 240
KILLED = "clinic"


class Hierarchy:
    """The processes of a site. What they say is in a file for each, `<name>.log`."""

    def __init__(self, site: Path) -> None:
        self.site = site
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str) -> None:
        with (self.site / f"{name}.log").open("ab") as log:
            command = [*HEADRACE, *arguments]
            self.processes[name] = subprocess.Popen(command, cwd=self.site, stdout=log, stderr=log)

    def start_sensor(self, sensor: str, *options: str) -> None:
        self.start(sensor, "edge", f"edge-{sensor}.toml", *options)

    def end(self, name: str, how: signal.Signals) -> None:
        self.processes[name].send_signal(how)
        self.processes.pop(name).wait(PATIENCE_S)

    def log(self, sensor: str, third: int) -> None:
        """A third of the files of a sensor appear in its log. Names that begin with a dot are not read yet."""
        files = sorted((self.site / "all" / "Attempts").glob(f"{sensor}-*.parquet"))
        for file in files[third * len(files) // 3 : (third + 1) * len(files) // 3]:
            coming = self.site / sensor / "log" / f".{file.name}"
            shutil.copy(file, coming)
            coming.rename(coming.with_name(file.name))

    def wait_for_results(self) -> None:
        """Until the root has answered some window, which it can't before all sensors have been heard."""
        until_s = time.monotonic() + PATIENCE_S
        while not any((self.site / "root" / "results").glob("*/*.parquet")):
            for name, process in self.processes.items():
                if process.poll() is not None:
                    sys.exit(f"{name} has stopped: see {self.site / name}.log")
            if time.monotonic() > until_s:
                sys.exit(f"no results after {PATIENCE_S} s: see {self.site}/*.log")
            time.sleep(0.2)

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()


def play(site: Path, minutes: int = MINUTES) -> None:
    make_site(site, minutes)
    hierarchy = Hierarchy(site)
    try:
        hierarchy.start("root", "run", "job.toml", "--bounded")
        hierarchy.start("gateway", "relay", "relay.toml")
        for sensor in SENSORS:
            hierarchy.log(sensor, 0)
            hierarchy.start_sensor(sensor)
        hierarchy.wait_for_results()
        print("the first results are there")
        for sensor in SENSORS:
            hierarchy.log(sensor, 1)
        hierarchy.end(KILLED, signal.SIGKILL)
        print(f"{KILLED} was killed; all sensors are started again, to read what is left")
        for sensor in SENSORS:
            hierarchy.log(sensor, 2)
            if sensor != KILLED:
                hierarchy.end(sensor, signal.SIGTERM)
            hierarchy.start_sensor(sensor, "--bounded")
        if hierarchy.processes["root"].wait(PATIENCE_S):
            sys.exit(f"the root failed: see {site / 'root'}.log")
        hierarchy.end("gateway", signal.SIGTERM)
    finally:
        hierarchy.stop()
    compare(site)


def compare(site: Path) -> None:
    """With all attempts in one place, answered without edges, relay and Spark."""
    command = [*HEADRACE, "eval", "queries.sql", "--data", "all", "--out", "expected"]
    subprocess.run(command, cwd=site, check=True, capture_output=True)
    count = 0
    for expected in sorted((site / "expected").glob("*.parquet")):
        rows = in_order(expected)
        if rows != in_order(site / "root" / "results" / expected.stem):
            sys.exit(f"{expected.stem} differs")
        count += len(rows)
    print(f"{count:,} rows of results are the same as without a hierarchy")


def in_order(path: Path) -> list[tuple[object, ...]]:
    """The rows of a file or folder, in an order of their own."""
    if not path.exists():
        return []
    return sorted((tuple(row.values()) for row in pq.read_table(path).to_pylist()), key=repr)


if __name__ == "__main__":
    play(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
