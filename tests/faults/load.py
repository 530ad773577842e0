"""Load: many queries, a hot key, many groups, and queries that come and go. Memory, files and step time must level off.

    python -m tests.faults.load [--minutes 30] [--json FILE [--resume]] [--spark] [CASE ...]

The steps run in this process, which does not wait for the disk, or with `--spark` on a local Spark. FILE holds the
result of each case that is done, so that `--resume` runs only the others.

The first half of a run is its warm-up. In the second half a line is fitted to each measure (Theil-Sen), and the growth
along this line must be a small part of the level. The time of a step is its CPU time, since others may use the machine;
with `--spark`, where other processes do the work, it is wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import numpy as np
import pyarrow as pa

from headrace.engine import pipeline as pipelines
from headrace.engine.pipeline import Pipeline
from headrace.engine.registry import ask
from headrace.engine.sinks.delivery import Delivery
from headrace.engine.sinks.sinks import ResultFolder
from headrace.engine.step import commit_record
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input, Stepper
from headrace.model.time import SECOND_US
from headrace.sql import parse_script
from headrace.storage import garbage
from headrace.storage import seen_files as seen
from headrace.storage.directory import Directory, prepare

STREAM = "CREATE STREAM S (t TIMESTAMP, k BIGINT, x DOUBLE) EVENT TIME t LATENESS '0 s';"
SEED = 20_260_101
WARM_UP = 0.5
"""Share of the steps that is not checked: windows fill, loops are compiled, caches and allocators reach their sizes."""
MEASURES = ("memory_mb", "state_files", "cpu_s", "step_s")
MAX_GROWTH = {"memory_mb": 0.05, "state_files": 0.05, "cpu_s": 0.1}
"""How much a measure may grow after the warm-up, as a share of its level."""
MAX_GROWTH_ON_SPARK = {"memory_mb": 0.05, "state_files": 0.05, "step_s": 0.1}
KEPT_RECORDS = 16
"""Records that the state keeps, instead of 100, and steps between listings, instead of 64: so a run covers many rounds
of garbage collection.
"""


@dataclass(frozen=True)
class Case:
    """Queries over rows of `keys` keys, of which one has a `hot` share; some queries are replaced after every step.

    A step covers `event_s` seconds of event time, so that windows close and slices are forgotten all the time.
    """

    queries: int
    keys: int
    steps: int
    rows: int = 20_000
    event_s: int = 10
    hot: float = 0.0
    replaced: int = 0
    minutes: float | None = None


CASES: Mapping[str, Case] = {
    "queries": Case(queries=2_000, keys=100, steps=64, rows=8_000),
    "hot_key": Case(queries=50, keys=1_000, steps=600, rows=200_000, event_s=4, hot=0.99),
    "groups": Case(queries=8, keys=300_000, steps=240, rows=900_000),
    "churn": Case(queries=500, keys=100, steps=sys.maxsize, rows=5_000, replaced=5, minutes=30),
}
TINY: Mapping[str, Case] = {
    name: replace(case, queries=min(case.queries, 12), keys=min(case.keys, 500), steps=6, rows=1_000, minutes=None)
    for name, case in CASES.items()
}


@dataclass(frozen=True)
class Point:
    """What was measured after one step: `step_s` is wall time, `files` counts those of the state by folder."""

    step_s: float
    cpu_s: float
    memory_mb: float
    files: Mapping[str, int]
    state_mb: float
    windows: int

    @property
    def state_files(self) -> int:
        return sum(self.files.values())


def sql_of(number: int, rng: np.random.Generator) -> str:
    """A query of the workload: windows and predicates differ, every fourth one has groups."""
    window = f"[RANGE '{rng.integers(5, 60)} s' SLIDE '{rng.integers(2, 6)} s']"
    where = f"WHERE x > {rng.integers(0, 1_000) / 1_000}"
    if number % 4 == 0:
        return f"SELECT k, count(*) AS n, sum(x) AS total FROM S {window} {where} GROUP BY k"
    return f"SELECT count(*) AS n, avg(x) AS mean FROM S {window} {where}"


def rows_of(case: Case, step: int, rng: np.random.Generator) -> pa.Table:
    step_us = case.event_s * SECOND_US
    times_us = np.sort(rng.integers(step * step_us, (step + 1) * step_us, case.rows))
    keys = np.where(rng.random(case.rows) < case.hot, 0, rng.integers(0, case.keys, case.rows))
    times = pa.array(times_us, pa.timestamp("us", tz="UTC"))
    return pa.table({"t": times, "k": pa.array(keys), "x": pa.array(rng.random(case.rows))})


def run_case(case: Case, root: Path, session: Any = None) -> Iterator[Point]:
    """Run the steps of a case, and measure after each."""
    rng = np.random.default_rng(SEED)
    catalog = parse_script(STREAM).catalog
    directory = prepare(root / "state", STREAM)
    setting = StreamSetting(uuid4().hex, str(root / "state"), catalog, "S", None)
    step_us = case.event_s * SECOND_US
    with (
        patch("os.fsync", new=skip_sync) if session is None else nullcontext(),
        patch.object(garbage, "KEPT_RECORDS", KEPT_RECORDS),
        patch.object(garbage, "LISTED_EVERY", KEPT_RECORDS),
        patch.object(pipelines, "LISTED_EVERY", KEPT_RECORDS),
        patch.object(commit_record, "ALL_QUERIES_EVERY", KEPT_RECORDS),
        patch.object(seen, "LISTED_EVERY", KEPT_RECORDS),
        closing(open_pipeline(setting, session, root / "results", KEPT_RECORDS * step_us)) as pipeline,
    ):
        for number in range(case.queries):
            ask(directory, "add", f"q{number}", sql_of(number, rng))
        begun = time.monotonic()
        for step in range(case.steps):
            if case.minutes is not None and time.monotonic() - begun > case.minutes * 60:
                return
            replace_queries(case, directory, step, rng)
            rows = rows_of(case, step, rng)
            started, started_cpu = time.monotonic(), time.process_time()
            given = [rows] if session is None else session.createDataFrame(rows)
            commit = pipeline.step(Input((step + 1) * step_us, rows=given, sample=rows.slice))
            pipeline.delivery.drain()
            step_s, cpu_s = time.monotonic() - started, time.process_time() - started_cpu
            windows = 0 if commit is None else commit.windows
            yield measure(root / "state", step_s, cpu_s, windows)
            delete_results(root / "results")


def open_pipeline(setting: StreamSetting, session: Any, results: Path, results_us: int) -> Pipeline:
    """Return a pipeline that writes files, and keeps results in the state for a time."""
    stepper = Stepper(setting, runner_on(session), reducers=2)
    delivery = Delivery(stepper.directory, (ResultFolder(str(results), "parquet"),), (), stepper.commit)
    return Pipeline(stepper, None, delivery, results_us, lambda stepper: stepper.number)


def skip_sync(descriptor: int) -> None:
    """Stand in for `os.fsync`. A mock would keep all of its calls, and so make memory grow."""


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


def delete_results(folder: Path) -> None:
    """Delete the results of a step, which would fill the disk in a long run."""
    for path in folder.glob("*/*.parquet"):
        path.unlink()


def measure(state: Path, step_s: float, cpu_s: float, windows: int) -> Point:
    paths = [path for path in state.rglob("*") if path.is_file()]
    files = Counter(path.relative_to(state).parts[0] if path.parent != state else "." for path in paths)
    size = sum(path.stat().st_size for path in paths)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Point(step_s, cpu_s, pages * os.sysconf("SC_PAGESIZE") / 2**20, dict(files), size / 2**20, windows)


# Findings


def growth(points: Sequence[Point]) -> dict[str, float]:
    """Return by what share of its level each measure grew after the warm-up."""
    return {name: round(trend([float(getattr(point, name)) for point in points]), 4) for name in MEASURES}


def trend(values: Sequence[float]) -> float:
    """Return the growth after the warm-up along a Theil-Sen line, as a share of the median.

    Files are deleted every few steps, which is a sawtooth: each value is the mean of one of its periods.
    """
    checked = np.array(values[int(len(values) * WARM_UP) :])
    steps = len(checked) - 1
    if len(checked) >= 2 * KEPT_RECORDS:
        checked = np.convolve(checked, np.full(KEPT_RECORDS, 1 / KEPT_RECORDS), "valid")
    first, second = np.triu_indices(len(checked), 1)
    if not len(first):
        return 0.0
    slope = float(np.median((checked[second] - checked[first]) / (second - first)))
    return slope * steps / max(float(np.median(checked)), 1e-9)


def curve(points: Sequence[Point], lines: int = 24) -> Iterator[str]:
    """A few of the points, as lines of text."""
    yield "  step  seconds    CPU s  memory MB  files  state MB   windows"
    for place in sorted({round(nth * (len(points) - 1) / max(1, lines - 1)) for nth in range(lines)}):
        point = points[place]
        yield (
            f"{place:>6} {point.step_s:>8.3f} {point.cpu_s:>8.3f} {point.memory_mb:>10.0f} "
            f"{point.state_files:>6} {point.state_mb:>9.1f} {point.windows:>9}"
        )


def run_all(
    cases: Mapping[str, Case], known: dict[str, Any], keep: Callable[[dict[str, Any]], None], session: Any = None
) -> dict[str, Any]:
    """Run the cases that are not known yet; `keep` gets all results after each of them."""
    max_growth = MAX_GROWTH if session is None else MAX_GROWTH_ON_SPARK
    for name, case in cases.items():
        if name in known:
            continue
        print(f"{name}: {case}", flush=True)
        started = time.monotonic()
        with TemporaryDirectory() as temporary:
            points = list(run_case(case, Path(temporary), session))
        minutes = round((time.monotonic() - started) / 60, 1)
        print("\n".join(curve(points)))
        print(f"files {', '.join(f'{folder} {count}' for folder, count in sorted(points[-1].files.items()))}")
        grown = growth(points)
        too_much = sorted(measure for measure, share in max_growth.items() if grown[measure] > share)
        trends = ", ".join(f"{measure} {share:+.1%}" for measure, share in grown.items())
        verdict = f"{', '.join(too_much)} did not level off" if too_much else "level"
        print(f"{name}: {len(points)} steps in {minutes} minutes: {trends}: {verdict}", flush=True)
        known[name] = {
            "minutes": minutes,
            "growth": grown,
            "too_much": too_much,
            "points": [asdict(point) for point in points],
        }
        keep(known)
    return known


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.load", description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--minutes", type=float, help="end each case after this time; default: 30 for churn")
    parser.add_argument("--json", type=Path, help="keep the results in this file")
    parser.add_argument("--resume", action="store_true", help="leave out the cases whose results are in the file")
    parser.add_argument("--spark", action="store_true", help="run the steps on a local Spark")
    parser.add_argument("--tiny", action="store_true", help="small sizes: whether it runs at all")
    asked = parser.parse_args(arguments)
    chosen = TINY if asked.tiny else CASES
    cases = {name: case for name, case in chosen.items() if not asked.cases or name in asked.cases}
    if asked.minutes is not None:
        cases = {name: replace(case, minutes=asked.minutes) for name, case in cases.items()}
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
