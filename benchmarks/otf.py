"""The engine on Spark from Parquet files to result files, against every query run by itself on the same session."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.data import WORKLOADS, Queries, queries_of
from benchmarks.peers import THREADS, FilePeer, check_equal, file_peers, own_answers
from benchmarks.tables import Document, show_figures
from benchmarks.timing import seconds
from headrace.cli.progress import Report, progress_bar
from headrace.datasets import generate
from headrace.engine.run import Run
from headrace.engine.step.stepper import Stepper
from headrace.expressions.static_tables import Data
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand
from headrace.planner.draft import apart, price_plan
from headrace.planner.plan import Plan
from headrace.planner.statistics import draw
from headrace.spark.engine import Engine
from headrace.spark.session import session
from headrace.spark.single_query import Files, files_in
from headrace.sql import format_query
from headrace.storage.store import locate

REPEATS = 3
"""The engine is timed this often; the median counts."""


def measure(workload: str, queries: int | None, rows: int | None, sample: int) -> Document:
    chosen = WORKLOADS[workload]
    asked = queries_of(chosen.name, queries or chosen.query_count)
    with files_on_spark(chosen.kind, rows or chosen.row_count) as (spark, files, scratch):
        return {"workload": workload, **measure_otf(spark, files, asked, sample, scratch)}


show = show_figures


@contextmanager
def files_on_spark(kind: str, rows: int) -> Iterator[tuple[SparkSession, Files, Path]]:
    """Generate files and open a session; also give a scratch directory."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as temporary:
        scratch = Path(temporary)
        with progress_bar(f"generating {kind}") as report:
            generate(kind, rows, 1, scratch / "data", progress=report)
        with session(f"local[{THREADS}]") as spark:
            yield spark, files_in(scratch / "data"), scratch


def measure_otf(spark: SparkSession, files: Files, queries: Queries, sample: int, scratch: Path) -> Document:
    """Compare results before anything is timed; by then the session, its workers and all loops are warm."""
    engine = engine_over(spark, files, queries)
    sampled = spread(queries, sample)
    with equal_terms(spark), file_peers(spark, files) as peers:
        with progress_bar("warming up") as report:
            report(0, 1)
            warm = run_bounded(engine, scratch / "warm", lambda run: answers_of(run, sampled))
        with progress_bar("comparing results") as report:
            checked = check(warm.answers, sampled, peers, scratch, report)
        with progress_bar("timing the engine") as report:
            timed = time_engine(engine, scratch, report)
        unshared = run_bounded(engine, scratch / "apart", prepare=plan_apart)
        peers_s = {}
        for name, peer in peers.items():
            with progress_bar(f"timing {name}") as report:
                peers_s[name] = time_peer(peer, sampled, scratch, report)
    all_s = {name: fmean(each) * len(queries) for name, each in peers_s.items()}
    shared_s, single_s, rows = timed.shared_s, median(peers_s["spark"]), timed.rows
    return {
        "queries": len(queries),
        "rows": rows,
        "checked_rows": checked,
        "shared_s": shared_s,
        "plan_s": timed.stages["plan"],
        "unshared_s": all_s["spark"],
        "unshared_sampled": len(sampled),
        "single_s": single_s,
        "speedup": all_s["spark"] / shared_s,
        "price_of_one": shared_s / single_s,
        "lattice_gain": unshared.stages["run"] / timed.stages["run"],
        "level1_rows": timed.level1_rows,
        "level1_share": timed.level1_rows / rows,
        "duckdb_s": all_s["duckdb"],
        "polars_s": all_s["polars"],
        "duckdb_gain": all_s["duckdb"] / shared_s,
        "polars_gain": all_s["polars"] / shared_s,
        "stages": timed.stages,
    }


# The session


@contextmanager
def equal_terms(spark: SparkSession) -> Iterator[None]:
    """Give Spark's own queries as many partitions as cores, and no adaptive execution: short queries gain by both."""
    wanted = {
        "spark.sql.shuffle.partitions": str(spark.sparkContext.defaultParallelism),
        "spark.sql.adaptive.enabled": "false",
    }
    before = {key: spark.conf.get(key) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, known in before.items():
            spark.conf.set(key, str(known))


# The engine


class Watch:
    """The seconds that a stepper spends in each stage, and the rows that leave level 1."""

    METHODS: Mapping[str, str] = {
        "begin": "begin",
        "plan_name": "plan",
        "run": "run",
        "build_commit": "commit",
        "finish": "finish",
    }

    def __init__(self, stepper: Stepper) -> None:
        self.taken: dict[str, float] = dict.fromkeys(self.METHODS.values(), 0.0)
        self.level1_rows = 0
        for method, stage in self.METHODS.items():
            self.wrap(stepper, method, stage)
        self.wrap(stepper.owner, "write_commit", "commit")

    def wrap(self, owner: object, method: str, stage: str) -> None:
        inner = getattr(owner, method)

        def outer(*arguments: Any, **named: Any) -> Any:
            begun = time.perf_counter()
            result = inner(*arguments, **named)
            self.taken[stage] += time.perf_counter() - begun
            if method == "run":
                self.level1_rows += sum(each.counted.node_rows for each in result.reduced)
            return result

        setattr(owner, method, outer)

    @property
    def stages(self) -> dict[str, float]:
        """Return seconds by stage. Planning is part of `begin`; here it is separate."""
        return self.taken | {"begin": self.taken["begin"] - self.taken["plan"]}


@dataclass(frozen=True, slots=True)
class Bounded:
    """A bounded run. All but planning is shared_s."""

    total_s: float
    stages: Mapping[str, float]
    rows: int
    level1_rows: int
    answers: Mapping[str, pa.Table]

    @property
    def shared_s(self) -> float:
        return self.total_s - self.stages["plan"]


def plan_apart(stepper: Stepper) -> None:
    """Make the stepper plan every leaf from the stream, without inner nodes."""

    def plan_for(queries: Queries, tables: Mapping[str, pa.Table], sampled: Callable[[], pa.Table]) -> Plan:
        demands = {name: demand(query) for name, query in queries.items()}
        data = Data(stepper.setting.catalog, stepper.setting.declared, sampled(), tables)
        return price_plan(apart(demands), demands, Cost(draw(data, queries.values()), Constants()))

    vars(stepper.planner)["plan_for"] = plan_for


def engine_over(spark: SparkSession, files: Files, queries: Queries) -> Engine:
    engine = Engine(spark, files.folder / "state")
    engine.declare((files.folder / "schema.sql").read_text(encoding="utf-8"))
    engine.stream(files.stream.name, files.paths[files.stream.name])
    for table in files.catalog.tables:
        engine.table(table.name, files.paths[table.name])
    for name, query in queries.items():
        engine.add(name, format_query(query))
    return engine


def run_bounded(
    engine: Engine,
    state: Path,
    look: Callable[[Run], Mapping[str, pa.Table]] = lambda _: {},
    prepare: Callable[[Stepper], None] = lambda _: None,
) -> Bounded:
    """Run once from a new state directory, removed afterwards, to the last result file under its name."""
    engine.state = locate(state)
    begun = time.perf_counter()
    run = engine.run()
    opened_s = time.perf_counter() - begun
    with run:
        (pipeline,) = run.pipelines
        stepper = pipeline.stepper
        prepare(stepper)
        watch = Watch(stepper)
        run.bounded()
        total_s = time.perf_counter() - begun
        assert stepper.commit is not None
        rows = stepper.commit.totals.rows
        stages = {"open": opened_s, **watch.stages}
        found = Bounded(total_s, stages, rows, watch.level1_rows, look(run))
    shutil.rmtree(state)
    return found


def time_engine(engine: Engine, scratch: Path, report: Report) -> Bounded:
    """Return the run of the median time. One more goes before: Spark ends workers that were idle for a minute."""
    runs = []
    for repeat in range(REPEATS + 1):
        report(repeat, REPEATS + 1)
        runs.append(run_bounded(engine, scratch / f"run-{repeat}"))
    return sorted(runs[1:], key=lambda run: run.shared_s)[REPEATS // 2]


def answers_of(run: Run, sampled: Queries) -> Mapping[str, pa.Table]:
    return {name: run.results(name) for name in sampled}


# The peers


def spread(queries: Queries, count: int) -> Queries:
    """Draw `count` queries, one from each of equal stretches: at even distances, those of a grid would be alike."""
    names, taken = list(queries), min(count, len(queries))
    cuts = np.linspace(0, len(names), taken + 1).astype(int).tolist()
    rng = np.random.default_rng(0)
    places = [int(rng.integers(begin, end)) for begin, end in pairwise(cuts)]
    return {names[place]: queries[names[place]] for place in places}


def check(
    answers: Mapping[str, pa.Table],
    sampled: Queries,
    peers: Mapping[str, FilePeer],
    scratch: Path,
    report: Report,
) -> int:
    """Count the rows of windows that are equal to each peer's; one that is not is an error, and so is having none."""
    checked = 0
    for place, (name, query) in enumerate(sampled.items()):
        report(place, len(sampled))
        ours = own_answers(query, answers[name])
        for peer_name, peer in peers.items():
            path = scratch / f"{peer_name}.parquet"
            peer.write(query, path)
            checked += check_equal(f"{name}: Headrace and {peer_name}", query, ours, peer.read(query, path))
    if not checked:
        raise RuntimeError("there is no row to compare: take more rows")
    return checked


def time_peer(peer: FilePeer, sampled: Queries, scratch: Path, report: Report) -> Sequence[float]:
    """Return the seconds of each query, after one more to warm up."""
    path = scratch / "timed.parquet"
    found = []
    for place, query in enumerate([next(iter(sampled.values())), *sampled.values()]):
        report(place, len(sampled) + 1)
        found.append(seconds(partial(peer.write, query, path)))
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return found[1:]
