"""Quantiles, heavy hitters and distinct counts of trades, no two with the same window or predicate, as in `otf`.

The aggregates come in turn, so that every short stretch of the workload has them all. `SUMS` has the same windows and
predicates, and of each trade the value is added up.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.datasets.trades import KIND
from headrace.datasets.workloads.otf import predicates, windows
from headrace.datasets.workloads.scripts import QueryText, Workload, number_queries, select

AGGREGATES = (
    "percentile_approx(T.Price * T.Vol, 0.5) AS p50",
    "heavy_hitters(T.Vol, 0.01) AS volumes",
    "percentile_approx(T.Price * T.Vol, 0.95) AS p95",
    "approx_count_distinct(T.Symbol) AS symbols",
    "percentile_approx(T.Price * T.Vol, 0.99) AS p99",
    "top_k(T.Symbol, 10) AS busiest",
)
TOTALS = ("sum(T.Price * T.Vol) AS value",)


def _over_trades(name: str, aggregates: Sequence[str], queries: int, seed: int) -> Sequence[QueryText]:
    selects = [
        select(
            [aggregates[n % len(aggregates)]],
            f"Trades T {window}, Close C, Index X",
            f"T.Symbol = C.Symbol AND T.Symbol = X.Symbol\n  AND {predicate}",
        )
        for n, (window, predicate) in enumerate(zip(windows(queries, seed), predicates(queries, seed), strict=True))
    ]
    return number_queries(name, selects)


HOLISTIC = Workload(
    "holistic",
    "percentiles, heavy hitters and distinct counts; no window and no predicate in two queries",
    KIND,
    64,
    lambda queries, seed: _over_trades("holistic", AGGREGATES, queries, seed),
)
SUMS = Workload(
    "holistic-sums",
    "the windows and predicates of holistic, with sums only",
    KIND,
    64,
    lambda queries, seed: _over_trades("holistic-sums", TOTALS, queries, seed),
)
WORKLOADS = (HOLISTIC, SUMS)
