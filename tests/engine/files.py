"""A small job over files, run step by step in this process or in a child that may die: what recovery is tested with."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from headrace.engine.sinks.sinks import ResultFolder
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input, Stepper
from headrace.inputs import Source
from headrace.model.query import Output
from headrace.model.schema import Catalog
from headrace.reference import Interpreter
from headrace.sql import format_stream, parse_query, parse_script
from headrace.storage.directory import prepare
from headrace.testing import write_batch
from tests.engine.file_stepper import FileStepper
from tests.engine.stories import Windows, read_results
from tests.oracle.test_kernel import check, weights

CATALOG: Catalog = parse_script(
    "CREATE STREAM r (t TIMESTAMP, k STRING, v BIGINT, x DOUBLE) EVENT TIME t LATENESS '2 s';"
).catalog
SCHEMA = pa.schema([("t", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64()), ("x", pa.float64())])
QUERIES = {
    "counts": "SELECT count(*) AS n, sum(v) AS v FROM r [RANGE '4 s' SLIDE '2 s']",
    "groups": "SELECT k, sum(x) AS x, max(v) AS v FROM r [RANGE '6 s' SLIDE '3 s'] WHERE v > 2 GROUP BY k",
    "best": "SELECT k, count(*) AS n FROM r [RANGE '5 s'] GROUP BY k ORDER BY n DESC LIMIT 2",
}
LATER = {"later": "SELECT k, min(x) AS x FROM r [RANGE '3 s'] WHERE v < 8 GROUP BY k"}
JOINS_AT = 3
"""The batch before which the later query joins."""


def batches(count: int, seed: int = 3) -> list[list[dict[str, Any]]]:
    """Each is about three seconds, with rows up to three seconds out of order: some are late."""
    source = random.Random(seed)
    return [
        [
            {
                "t": (number * 3 + source.randrange(-3, 3)) * 1_000_000 + source.randrange(1_000_000),
                "k": source.choice("abcdef"),
                "v": source.randrange(10),
                "x": source.randrange(-100, 100) / 7,
            }
            for _ in range(12)
        ]
        for number in range(count)
    ]


def write_input(folder: Path, rows: list[dict[str, Any]], number: int) -> None:
    write_batch(folder, pa.Table.from_pylist(rows, schema=SCHEMA), number)


def write_inputs(root: Path, count: int) -> Path:
    """Write one file for each of the first batches; return the folder of the job."""
    for number, rows in enumerate(batches(count)):
        write_input(root / "input", rows, number)
    return root


def result_folders(root: Path) -> tuple[ResultFolder, ...]:
    return (ResultFolder(str(root / "results"), "parquet"),)


RESULTS = result_folders


def make_stepper(root: Path, state: str | None = None, tasks: int = 2, **options: Any) -> Stepper:
    """Open the job in a folder. Its state is there too, or in an object store."""
    stream = CATALOG.streams[0]
    directory = prepare(state or root / "state", format_stream(stream))
    source, location = Source(str(root / "input")), directory.store.location
    setting = StreamSetting(uuid4().hex, location, CATALOG, "r", source)
    stepper = FileStepper(setting, InProcess(tasks), RESULTS(root), reducers=2, step_bytes=1, **options)
    if stepper.commit is None:
        stepper.changes.register({name: (sql, parse_query(sql, CATALOG)) for name, sql in QUERIES.items()})
    return stepper


def run_all(root: Path, between: Callable[[Stepper], None] = lambda _: None, **options: Any) -> None:
    """Every file a step of its own, then the end. A query joins on the way, where the last run left off too."""
    stepper = make_stepper(root, **options)
    try:
        while True:
            if stepper.number == JOINS_AT + 1 and stepper.pending is None:
                stepper.changes.register({name: (sql, parse_query(sql, CATALOG)) for name, sql in LATER.items()})
            ended = stepper.number > len(list((root / "input").iterdir()))
            if stepper.step(Input(ended=ended)) is None:
                return
            between(stepper)
    finally:
        stepper.close()


def expected(count: int, seed: int = 3) -> dict[str, Windows]:
    """From the reference, with weights behind the values; the later query as if it had been there from the start."""
    interpreter = Interpreter(CATALOG.streams[0])
    asked = {name: parse_query(sql, CATALOG) for name, sql in (QUERIES | LATER).items()}
    for name, query in asked.items():
        extra = tuple(Output(f"w{place}", tree) for place, tree in weights(query).items())
        interpreter.register(name, replace(query, outputs=(*query.outputs, *extra)))
    steps = [interpreter.batch(rows) for rows in batches(count, seed)]
    found: dict[str, Windows] = {name: {} for name in asked}
    for step in [*steps, interpreter.end()]:
        for result in step.results:
            bounds = result.window.start_us, result.window.end_us
            found[result.query].setdefault(bounds, []).extend(result.rows)
    return found


def check_results(root: Path, count: int, seed: int = 3) -> None:
    """All windows of the first queries, each once; of the later one no wrong one, and the last."""
    theirs = expected(count, seed)
    for name, sql in (QUERIES | LATER).items():
        query = parse_query(sql, CATALOG)
        ours = read_results(root / "results" / name, query)
        if name in QUERIES:
            assert ours.keys() == {window for window, rows in theirs[name].items() if rows}, name
        else:
            assert max(ours) == max(theirs[name])
        for window, rows in ours.items():
            check(query, in_order(query.limit, rows), in_order(query.limit, theirs[name][window]))


def in_order(limit: int | None, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return rows if limit is not None else sorted(rows, key=lambda row: str(row[2]))


if __name__ == "__main__":
    import sys

    run_all(Path(sys.argv[1]))
