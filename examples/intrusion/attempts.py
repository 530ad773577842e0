"""A site to play on, with generated attempts: python examples/intrusion/attempts.py SITE

SITE gets the files of this folder, `all/` with the attempts of all networks, and for each sensor an empty log. Among
them are three intruders: one tries the ports of a host, one the hosts of all networks, slowly, one a single port.
"""

from __future__ import annotations

import random
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
SENSORS = ("campus", "clinic", "depot")
BEGINNING = datetime(2026, 1, 5, 9, tzinfo=UTC)
MINUTES = 6
FILE_S = 10
"""A sensor begins a new file of its log after so many seconds."""
PER_FILE = 1_000
CLIENTS = 300
"""Each keeps to one host and one port of a network."""
PORTS = (443, 443, 443, 80, 80, 25, 53, 22, 3389)
PORT_SCANNER, SWEEPER, GUESSER = "203.0.113.7", "198.51.100.23", "192.0.2.99"
SCHEMA = pa.schema(
    {
        "t": pa.timestamp("us", "UTC"),
        "source": pa.string(),
        "host": pa.string(),
        "port": pa.int64(),
        "answered": pa.bool_(),
    }
)


def attempts_of(sensor: str, number: int) -> list[dict[str, Any]]:
    """What a sensor logs in one file, in the order of time. A sensor and a number always give the same."""
    draw = random.Random(f"{sensor} {number}")
    network = SENSORS.index(sensor) + 1

    def attempt(source: str, host: int, port: int, answered: bool) -> dict[str, Any]:
        seconds = timedelta(seconds=number * FILE_S, microseconds=draw.randrange(FILE_S * 1_000_000))
        values = (BEGINNING + seconds, source, f"10.{network}.0.{host}", port, answered)
        return dict(zip(SCHEMA.names, values, strict=True))

    found = [
        attempt(f"80.0.{client // 60}.{client % 60}", 1 + client % 40, PORTS[client % len(PORTS)], True)
        for client in draw.choices(range(CLIENTS), k=PER_FILE)
    ]
    found += [attempt(SWEEPER, 50 + (number * 2 + each) % 200, 22, False) for each in range(2)]
    if sensor == "campus" and 12 <= number < 24:
        found += [attempt(PORT_SCANNER, 17, 1 + number * 20 + each, False) for each in range(20)]
    if sensor == "clinic" and number % 6 < 3:
        found += [attempt(GUESSER, 3, 3389, False) for _ in range(6)]
    return sorted(found, key=lambda each: each["t"])


def make_site(site: Path, minutes: int = MINUTES) -> None:
    """The folder must be new."""
    (site / "all" / "Attempts").mkdir(parents=True)
    for path in sorted((*HERE.glob("*.toml"), *HERE.glob("*.sql"))):
        shutil.copy(path, site)
    shutil.copy(HERE / "schema.sql", site / "all")
    for sensor in SENSORS:
        (site / sensor / "log").mkdir(parents=True)
        for number in range(minutes * 60 // FILE_S):
            rows = pa.Table.from_pylist(attempts_of(sensor, number), schema=SCHEMA)
            pq.write_table(rows, site / "all" / "Attempts" / f"{sensor}-{number:04}.parquet")


if __name__ == "__main__":
    make_site(Path(sys.argv[1]))
