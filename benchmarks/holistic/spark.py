"""Percentiles, heavy hitters and distinct counts shared on Spark, against each query by itself and against sums.

Alone, a query is what people write for Spark at the same declared error: `percentile_approx` with accuracy 100,
`approx_count_distinct` with a relative standard deviation of 0.016; for heavy hitters the exact counts of all items.
"""

from __future__ import annotations

import operator
import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import rich_click as click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from benchmarks.data import Queries
from benchmarks.holistic.truth import Answers, Question, check_answers, exact_windows, question_of
from benchmarks.otf import REPEATS, Bounded, answers_of, engine_over, equal_terms, files_on_spark, run_bounded, spread
from benchmarks.peers import FilePeer, microseconds
from benchmarks.tables import Document, show_figures
from benchmarks.timing import seconds
from headrace.cli.progress import Report, progress_bar
from headrace.datasets.workloads.holistic import HOLISTIC, SUMS
from headrace.model.expressions import WINDOW_END
from headrace.model.query import Query
from headrace.model.windows import Window
from headrace.spark.engine import Engine
from headrace.spark.single_query import END, Files, in_windows, read_frames, spark_expression
from headrace.sql import parse_script

PERCENTILE_ACCURACY = 100
RELATIVE_DEVIATION = 0.016
ITEM, COUNT, TOTAL, RANK = "item", "count", "total", "rank"
END_OF_WINDOW = "window.end"


def measure(trades: int, queries: int, sample: int) -> Document:
    asked, sums = (
        {named.name: named.query for named in parse_script(workload.script(queries, 7)).queries}
        for workload in (HOLISTIC, SUMS)
    )
    with files_on_spark("trades", trades) as (spark, files, scratch):
        return measure_holistic(spark, files, asked, sums, sample, scratch)


def show(document: Document) -> None:
    show_figures(document)
    click.echo(
        f"unshared_s is scaled to {document['queries']} queries from {document['unshared_sampled']}, "
        "function by function",
        err=True,
    )


def measure_holistic(
    spark: SparkSession, files: Files, queries: Queries, sums: Queries, sample: int, scratch: Path
) -> Document:
    """Compare results before anything is timed."""
    engine, adding = engine_over(spark, files, queries), engine_over(spark, files, sums)
    sampled = sampled_by_function(queries, sample)
    peer = spark_peer(spark, files)
    with equal_terms(spark):
        with progress_bar("warming up") as report:
            report(0, 1)
            warm = run_bounded(engine, scratch / "warm", lambda run: answers_of(run, sampled))
        with progress_bar("comparing results") as report:
            checked = check(spark, files, warm.answers, sampled, peer, scratch, report)
        with progress_bar("timing") as report:
            ours, added, alone_s = time_all(engine, adding, peer, sampled, scratch, report)
    by_function = {
        function: fmean(alone_s[name] for name in sampled if function_of(sampled[name]) == function)
        for function in map(function_of, sampled.values())
    }
    unshared_s = sum(by_function[function_of(query)] for query in queries.values())
    return {
        "queries": len(queries),
        "trades": ours.rows,
        "checked_rows": checked,
        "shared_s": ours.shared_s,
        "plan_s": ours.stages["plan"],
        "sums_s": added.shared_s,
        "unshared_s": unshared_s,
        "unshared_sampled": len(sampled),
        "alone_s": by_function,
        "holistic_speedup": unshared_s / ours.shared_s,
        "holistic_over_sums": ours.shared_s / added.shared_s,
        "level1_rows": ours.level1_rows,
        "stages": ours.stages,
        "sums_stages": added.stages,
    }


# The engine


def time_all(
    engine: Engine, adding: Engine, peer: FilePeer, sampled: Queries, scratch: Path, report: Report
) -> tuple[Bounded, Bounded, Mapping[str, float]]:
    """Time both engines, the median of their runs, and each query alone.

    All take turns, so that other load on the machine affects all: a part of the queries follows each pair of runs. One
    more pair goes before.
    """
    runs: tuple[list[Bounded], list[Bounded]] = ([], [])
    alone_s: dict[str, float] = {}
    for repeat in range(REPEATS + 1):
        for place, each in enumerate((engine, adding)):
            report(2 * repeat + place, 2 * REPEATS + 2)
            runs[place].append(run_bounded(each, scratch / f"run-{repeat}-{place}"))
        for name in list(sampled)[repeat - 1 :: REPEATS] if repeat else ():
            alone_s[name] = seconds(partial(peer.write, sampled[name], scratch / "timed.parquet"))
    first, second = (sorted(each[1:], key=lambda run: run.shared_s)[REPEATS // 2] for each in runs)
    return first, second, alone_s


def function_of(query: Query) -> str:
    return question_of(query).function


def sampled_by_function(queries: Queries, count: int) -> Queries:
    """Draw `count` queries, at least one and about the same share of each function: their costs differ much."""
    members: dict[str, dict[str, Query]] = {}
    for name, query in queries.items():
        members.setdefault(function_of(query), {})[name] = query
    taken = dict.fromkeys(members, 1)
    while sum(taken.values()) < min(count, len(queries)):
        left = [function for function in members if taken[function] < len(members[function])]
        taken[min(left, key=lambda function: taken[function] / len(members[function]))] += 1
    return {name: query for function in members for name, query in spread(members[function], taken[function]).items()}


# Spark


class Alone(NamedTuple):
    """How Spark computes a function over rows in windows, and whether it returns a row for each item."""

    compute: Callable[[DataFrame, float], DataFrame]
    lists: bool = False


def percentile(rows: DataFrame, fraction: float) -> DataFrame:
    return rows.groupBy("window").agg(F.percentile_approx(ITEM, fraction, PERCENTILE_ACCURACY).alias(ITEM))


def distinct(rows: DataFrame, _: float) -> DataFrame:
    return rows.groupBy("window").agg(F.approx_count_distinct(ITEM, RELATIVE_DEVIATION).alias(ITEM))


def count_items(rows: DataFrame) -> DataFrame:
    return rows.groupBy("window", ITEM).agg(F.count(F.lit(1)).alias(COUNT))


def heavy_hitters(rows: DataFrame, share: float) -> DataFrame:
    totals = F.sum(COUNT).over(Over.partitionBy("window"))
    return count_items(rows).withColumn(TOTAL, totals).filter(F.col(COUNT) >= share * F.col(TOTAL)).drop(TOTAL)


def top_k(rows: DataFrame, most: float) -> DataFrame:
    ranks = F.row_number().over(Over.partitionBy("window").orderBy(F.desc(COUNT), ITEM))
    return count_items(rows).withColumn(RANK, ranks).filter(F.col(RANK) <= int(most)).drop(RANK)


ALONE: Mapping[str, Alone] = {
    "percentile_approx": Alone(percentile),
    "approx_count_distinct": Alone(distinct),
    "heavy_hitters": Alone(heavy_hitters, lists=True),
    "top_k": Alone(top_k, lists=True),
}


def rows_in_windows(query: Query, frames: Mapping[str, DataFrame], event_time: str) -> DataFrame:
    """Return a row of the stream for each window that holds it, with the aggregate's argument beside it."""
    assert isinstance(query.window, Window)
    rows = frames[query.stream].alias(query.stream)
    for join in query.joins:
        table = F.broadcast(frames[join.table].alias(join.relation))
        keys = [spark_expression(key.expression) == F.col(f"{join.relation}.{key.column}") for key in join.keys]
        rows = rows.join(table, reduce(operator.and_, keys))
    if query.where is not None:
        rows = rows.filter(spark_expression(query.where))
    rows = in_windows(rows, query.window, F.col(f"{query.stream}.{event_time}"))
    return rows.select("window", spark_expression(question_of(query).argument).alias(ITEM))


def spark_peer(spark: SparkSession, files: Files) -> FilePeer:
    frames = read_frames(spark, files)

    def write(query: Query, path: Path) -> None:
        question = question_of(query)
        found = ALONE[question.function].compute(
            rows_in_windows(query, frames, files.stream.event_time), question.parameter
        )
        shown = found.select(F.col("window.start"), F.col("window.end"), *found.columns[1:])
        shown.write.mode("overwrite").parquet(str(path))

    return FilePeer(write, lambda _, path: pq.read_table(path))


# Comparing


def check(
    spark: SparkSession,
    files: Files,
    answers: Mapping[str, pa.Table],
    sampled: Queries,
    peer: FilePeer,
    scratch: Path,
    report: Report,
) -> int:
    """Count the windows, of ours and of Spark's, that are within the declared error of the exact answers."""
    frames, checked = read_frames(spark, files), 0
    for place, (name, query) in enumerate(sampled.items()):
        report(place, len(sampled))
        question, path = question_of(query), scratch / "compared.parquet"
        rows_in_windows(query, frames, files.stream.event_time).select(END_OF_WINDOW, ITEM).write.parquet(str(path))
        rows = pq.read_table(path)
        truth = exact_windows(microseconds(rows[END]), rows[ITEM])
        peer.write(query, path)
        theirs = spark_answers(question, peer.read(query, path), truth)
        shutil.rmtree(path)
        checked += check_answers(f"{name} by Headrace", question, own_answers(query, answers[name]), truth)
        checked += check_answers(f"{name} by Spark", question, theirs, truth)
    if not checked:
        raise RuntimeError("there is no window to compare: take more trades")
    return checked


def own_answers(query: Query, table: pa.Table) -> Answers:
    """Return our answers without the windows that hold no row: Spark does not have them."""
    (end,) = (output.name for output in query.outputs if output.expression == WINDOW_END)
    found = zip(microseconds(table[end]).tolist(), table[question_of(query).name].to_pylist(), strict=True)
    without_rows = (None, 0) if question_of(query).function == "approx_count_distinct" else (None,)
    return {end_us: answer for end_us, answer in found if answer not in without_rows}


def spark_answers(question: Question, table: pa.Table, all_ends: Iterable[int]) -> Answers:
    """Return Spark's answers. A window without an item of the wanted share has no row there; we have an empty list."""
    ends, items = microseconds(table[END]).tolist(), table[ITEM].to_pylist()
    if not ALONE[question.function].lists:
        return dict(zip(ends, items, strict=True))
    found: dict[int, list[Mapping[str, Any]]] = {end: [] for end in all_ends}
    for end, item, count in zip(ends, items, table[COUNT].to_pylist(), strict=True):
        found[end].append({"item": item, "lower": count, "upper": count})
    return found
