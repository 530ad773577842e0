"""A child process that runs the job of `files` on a Spark session of its own, to the end of its input.

python -m tests.spark.engine_child ROOT
"""

from __future__ import annotations

import sys
from pathlib import Path

from headrace import Engine
from headrace.spark.sessions import session
from headrace.sql import format_stream
from tests.spark.files import CATALOG, QUERIES


def main(root: Path) -> None:
    with session("local[2]") as spark:
        engine = Engine(spark, root / "state", reducers=2, step_bytes=1)
        engine.declare(format_stream(CATALOG.streams[0]))
        engine.stream("r", root / "input")
        engine.sink("parquet", path=root / "results")
        for name, sql in QUERIES.items():
            engine.add(name, sql)
        with engine.bounded():
            pass


if __name__ == "__main__":
    main(Path(sys.argv[1]))
