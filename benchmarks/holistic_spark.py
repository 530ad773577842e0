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
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from benchmarks.holistic_truth import Answers, Question, check_answers, exact_windows, question_of
from benchmarks.kernel import Queries, seconds
from benchmarks.spark_otf import (
    REPEATS,
    Bars,
    Bounded,
    Report,
    answers_of,
    bounded,
    engine_over,
    equal_terms,
    spread,
)
from benchmarks.spark_peers import FilePeer, microseconds
from headrace.model.expressions import WINDOW_END
from headrace.model.query import Query
from headrace.model.windows import Window
from headrace.spark.engine import Engine
from headrace.spark.single_query import END, Files, in_windows, spark_expression

PERCENTILE_ACCURACY = 100
RELATIVE_DEVIATION = 0.016
ITEM, COUNT, TOTAL, RANK = "item", "count", "total", "rank"
END_OF_WINDOW = "window.end"


def measure_holistic(
    spark: SparkSession, files: Files, queries: Queries, sums: Queries, sample: int, scratch: Path, bars: Bars
) -> Mapping[str, Any]:
    """Results are compared before anything is timed."""
    engine, adding = engine_over(spark, files, queries), engine_over(spark, files, sums)
    sampled = sampled_by_function(queries, sample)
    peer = spark_peer(spark, files)
    with equal_terms(spark):
        with bars("warming up") as report:
            report(0, 1)
            warm = bounded(engine, scratch / "warm", lambda run: answers_of(run, sampled))
        with bars("comparing results") as report:
            checked = check(spark, files, warm.answers, sampled, peer, scratch, report)
        with bars("timing") as report:
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
    """Both engines, the median of their times, and the seconds of each query alone, which ran before, compared.

    All in turn, so that what else the machine does meets all: a part of the queries follows each pair of runs. One
    more pair goes before.
    """
    runs: tuple[list[Bounded], list[Bounded]] = ([], [])
    alone_s: dict[str, float] = {}
    for repeat in range(REPEATS + 1):
        for place, each in enumerate((engine, adding)):
            report(2 * repeat + place, 2 * REPEATS + 2)
            runs[place].append(bounded(each, scratch / f"run-{repeat}-{place}"))
        for name in list(sampled)[repeat - 1 :: REPEATS] if repeat else ():
            alone_s[name] = seconds(partial(peer.write, sampled[name], scratch / "timed.parquet"))
    first, second = (sorted(each[1:], key=lambda run: run.shared_s)[REPEATS // 2] for each in runs)
    return first, second, alone_s


def function_of(query: Query) -> str:
    return question_of(query).function


def sampled_by_function(queries: Queries, count: int) -> Queries:
    """So many, at least one of each function, and of each about the same share: what they cost alone differs much."""
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
    """How Spark computes a function over rows in windows, and whether it gives a row for each item."""

    compute: Callable[[DataFrame, float], DataFrame]
    lists: bool = False


def percentile(rows: DataFrame, fraction: float) -> DataFrame:
    return rows.groupBy("window").agg(F.percentile_approx(ITEM, fraction, PERCENTILE_ACCURACY).alias(ITEM))


def distinct(rows: DataFrame, _: float) -> DataFrame:
    return rows.groupBy("window").agg(F.approx_count_distinct(ITEM, RELATIVE_DEVIATION).alias(ITEM))


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("window", ITEM).agg(F.count(F.lit(1)).alias(COUNT))


def heavy_hitters(rows: DataFrame, share: float) -> DataFrame:
    totals = F.sum(COUNT).over(Over.partitionBy("window"))
    return counted(rows).withColumn(TOTAL, totals).filter(F.col(COUNT) >= share * F.col(TOTAL)).drop(TOTAL)


def top_k(rows: DataFrame, most: float) -> DataFrame:
    ranks = F.row_number().over(Over.partitionBy("window").orderBy(F.desc(COUNT), ITEM))
    return counted(rows).withColumn(RANK, ranks).filter(F.col(RANK) <= int(most)).drop(RANK)


ALONE: Mapping[str, Alone] = {
    "percentile_approx": Alone(percentile),
    "approx_count_distinct": Alone(distinct),
    "heavy_hitters": Alone(heavy_hitters, lists=True),
    "top_k": Alone(top_k, lists=True),
}


def rows_in_windows(query: Query, frames: Mapping[str, DataFrame], event_time: str) -> DataFrame:
    """A row of the stream for each window that holds it, with the aggregate's argument beside it."""
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


def frames_of(spark: SparkSession, files: Files) -> Mapping[str, DataFrame]:
    return {name: spark.read.parquet(str(path)) for name, path in files.paths.items()}


def spark_peer(spark: SparkSession, files: Files) -> FilePeer:
    frames = frames_of(spark, files)

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
    """How many windows, of ours and of Spark's, are within the declared error of the exact answers."""
    frames, checked = frames_of(spark, files), 0
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
    """Without the windows that hold no row: Spark does not have them."""
    (end,) = (output.name for output in query.outputs if output.expression == WINDOW_END)
    found = zip(microseconds(table[end]).tolist(), table[question_of(query).name].to_pylist(), strict=True)
    without_rows = (None, 0) if question_of(query).function == "approx_count_distinct" else (None,)
    return {end_us: answer for end_us, answer in found if answer not in without_rows}


def spark_answers(question: Question, table: pa.Table, all_ends: Iterable[int]) -> Answers:
    """A window without an item of the share that is asked for has no row in Spark, and an empty list in ours."""
    ends, items = microseconds(table[END]).tolist(), table[ITEM].to_pylist()
    if not ALONE[question.function].lists:
        return dict(zip(ends, items, strict=True))
    found: dict[int, list[Mapping[str, Any]]] = {end: [] for end in all_ends}
    for end, item, count in zip(ends, items, table[COUNT].to_pylist(), strict=True):
        found[end].append({"item": item, "lower": count, "upper": count})
    return found
