"""Load: many queries, a hot key, many groups, and queries that come and go. Memory, files and step time must level off.

    python -m tests.faults.load [--minutes 30] [--json FILE [--resume]] [--spark] [CASE ...]

The steps run in this process, or with `--spark` on a local Spark. FILE holds the result of each case that is done, so
that `--resume` runs only the others.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from headrace.engine.context import Setting
from headrace.engine.in_process import InProcess
from headrace.engine.registry import ask
from headrace.engine.step import Input, Stepper
from headrace.model.time import SECOND_US
from headrace.sql import parse_script
from headrace.storage.directory import Directory, prepare
from headrace.storage.records import ResultFolder

STREAM = "CREATE STREAM S (t TIMESTAMP, k BIGINT, x DOUBLE) EVENT TIME t LATENESS '0 s';"
SEED = 20_260_101
STEP_S = 10
"""Event time that one step covers: windows close in every step, and slices are forgotten."""
GROWTH = {"memory_mb": 1.25, "state_files": 1.25, "step_s": 2.0}
"""How much larger the last third of a run may be than the one before."""


@dataclass(frozen=True)
class Case:
    """Queries over rows of `keys` keys, of which one has a `hot` share; some queries are replaced after every step."""

    queries: int
    keys: int
    steps: int
    rows: int = 20_000
    hot: float = 0.0
    replaced: int = 0
    minutes: float | None = None


CASES: Mapping[str, Case] = {
    "queries": Case(queries=2_000, keys=100, steps=12),
    "hot_key": Case(queries=50, keys=1_000, steps=30, rows=100_000, hot=0.99),
    "groups": Case(queries=8, keys=300_000, steps=12, rows=600_000),
    "churn": Case(queries=500, keys=100, steps=sys.maxsize, rows=5_000, replaced=5, minutes=30),
}
TINY: Mapping[str, Case] = {
    name: replace(case, queries=min(case.queries, 12), keys=min(case.keys, 500), steps=6, rows=1_000, minutes=None)
    for name, case in CASES.items()
}


@dataclass(frozen=True)
class Point:
    """What was measured after one step."""

    step_s: float
    memory_mb: float
    state_files: int
    state_mb: float
    windows: int


def sql_of(number: int, rng: np.random.Generator) -> str:
    """A query of the workload: windows and predicates differ, every fourth one has groups."""
    window = f"[RANGE '{rng.integers(5, 60)} s' SLIDE '{rng.integers(2, 6)} s']"
    where = f"WHERE x > {rng.integers(0, 1_000) / 1_000}"
    if number % 4 == 0:
        return f"SELECT k, count(*) AS n, sum(x) AS total FROM S {window} {where} GROUP BY k"
    return f"SELECT count(*) AS n, avg(x) AS mean FROM S {window} {where}"


def rows_of(case: Case, step: int, rng: np.random.Generator) -> pa.Table:
    times_us = np.sort(rng.integers(step * STEP_S * SECOND_US, (step + 1) * STEP_S * SECOND_US, case.rows))
    keys = np.where(rng.random(case.rows) < case.hot, 0, rng.integers(0, case.keys, case.rows))
    times = pa.array(times_us, pa.timestamp("us", tz="UTC"))
    return pa.table({"t": times, "k": pa.array(keys), "x": pa.array(rng.random(case.rows))})


def run_case(case: Case, root: Path, session: Any = None) -> Iterator[Point]:
    """Run the steps of a case, and measure after each."""
    rng = np.random.default_rng(SEED)
    catalog = parse_script(STREAM).catalog
    directory = prepare(root / "state", STREAM, 2)
    folders = (ResultFolder(str(root / "results"), "parquet"),)
    stepper = Stepper(Setting(uuid4().hex, str(root / "state"), 2, catalog, "S", None, folders), runner_on(session))
    for number in range(case.queries):
        ask(directory, "add", f"q{number}", sql_of(number, rng))
    begun = time.monotonic()
    try:
        for step in range(case.steps):
            if case.minutes is not None and time.monotonic() - begun > case.minutes * 60:
                return
            replace_queries(case, directory, step, rng)
            rows = rows_of(case, step, rng)
            started = time.monotonic()
            given = [rows] if session is None else session.createDataFrame(rows)
            commit = stepper.step(Input(rows=given, sample=rows.slice))
            step_s = time.monotonic() - started
            windows = 0 if commit is None else sum(each.windows for each in commit.queries.values())
            yield measured(root / "state", step_s, windows)
    finally:
        stepper.close()


def runner_on(session: Any) -> Any:
    if session is None:
        return InProcess()
    from headrace.spark.runner import SparkRunner

    return SparkRunner(session)


def replace_queries(case: Case, directory: Directory, step: int, rng: np.random.Generator) -> None:
    for place in range(case.replaced if step else 0):
        oldest = (step - 1) * case.replaced + place
        ask(directory, "drop", f"q{oldest}")
        ask(directory, "add", f"q{oldest + case.queries}", sql_of(oldest, rng))


def measured(state: Path, step_s: float, windows: int) -> Point:
    sizes = [path.stat().st_size for path in state.rglob("*") if path.is_file()]
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Point(step_s, pages * os.sysconf("SC_PAGESIZE") / 2**20, len(sizes), sum(sizes) / 2**20, windows)


# Findings


def growth(points: list[Point]) -> dict[str, float]:
    """By what factor the median of the last third is above that of the third before."""
    third = max(1, len(points) // 3)
    found = {}
    for name in GROWTH:
        values = [float(getattr(point, name)) for point in points]
        last, before = statistics.median(values[-third:]), statistics.median(values[-2 * third : -third] or values)
        found[name] = round(last / max(before, 1e-9), 3)
    return found


def curve(points: list[Point], lines: int = 12) -> Iterator[str]:
    """A few of the points, as lines of text."""
    yield f"{'step':>6} {'seconds':>8} {'memory MB':>10} {'files':>6} {'state MB':>9} {'windows':>9}"
    for place in sorted({round(nth * (len(points) - 1) / max(1, lines - 1)) for nth in range(lines)}):
        point = points[place]
        yield (
            f"{place:>6} {point.step_s:>8.3f} {point.memory_mb:>10.0f} {point.state_files:>6} "
            f"{point.state_mb:>9.1f} {point.windows:>9}"
        )


def run_all(
    cases: Mapping[str, Case], known: dict[str, Any], keep: Callable[[dict[str, Any]], None], session: Any = None
) -> dict[str, Any]:
    """Run the cases that are not known yet; `keep` gets all results after each of them."""
    for name, case in cases.items():
        if name in known:
            continue
        print(f"{name}: {case}", flush=True)
        with TemporaryDirectory() as temporary:
            points = list(run_case(case, Path(temporary), session))
        print("\n".join(curve(points)))
        grown = growth(points)
        too_much = sorted(part for part, factor in grown.items() if factor > GROWTH[part])
        print(f"growth {grown}" + (f": {', '.join(too_much)} did not level off" if too_much else ": level"))
        known[name] = {"growth": grown, "too_much": too_much, "points": [asdict(point) for point in points]}
        keep(known)
    return known


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.load", description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--minutes", type=float, default=CASES["churn"].minutes, help="how long queries come and go")
    parser.add_argument("--json", type=Path, help="keep the results in this file")
    parser.add_argument("--resume", action="store_true", help="leave out the cases whose results are in the file")
    parser.add_argument("--spark", action="store_true", help="run the steps on a local Spark")
    parser.add_argument("--tiny", action="store_true", help="small sizes: whether it runs at all")
    asked = parser.parse_args(arguments)
    chosen = TINY if asked.tiny else {**CASES, "churn": replace(CASES["churn"], minutes=asked.minutes)}
    cases = {name: case for name, case in chosen.items() if not asked.cases or name in asked.cases}
    known = json.loads(asked.json.read_text()) if asked.resume and asked.json and asked.json.exists() else {}

    def keep(results: dict[str, Any]) -> None:
        if asked.json:
            asked.json.write_text(json.dumps(results, indent=1))

    session = None
    if asked.spark:
        from headrace.spark.session import start_session

        session = start_session()
    found = run_all(cases, known, keep, session)
    return 1 if any(found[name]["too_much"] for name in cases) and not asked.tiny else 0


if __name__ == "__main__":
    sys.exit(main())
