"""Packets per source and packets in all, over windows with one slide and many ranges [HIFI 6.1, Table 5]."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.datasets.random_values import generator
from headrace.datasets.syn import KIND
from headrace.datasets.workloads.scripts import QueryText, WindowText, Workload, number_queries, select

SLIDES_S = (1_000, 2_000)
RANGES_S = (1_500, 2_500)


def windows(count: int, seed: int) -> list[WindowText]:
    """Return windows that overlap or tumble: ranges below the common slide are not drawn."""
    rng = generator(seed)
    slide_s = int(rng.integers(*SLIDES_S, endpoint=True))
    shortest_s = max(slide_s, RANGES_S[0])
    return [WindowText(int(rng.integers(shortest_s, RANGES_S[1], endpoint=True)), slide_s) for _ in range(count)]


def _make_grouped(queries: int, seed: int) -> Sequence[QueryText]:
    """Return variants of query 1 of HIFI."""
    outputs = ["S.SrcIP", "count(*) AS packets"]
    selects = [select(outputs, f"Snort S {window}", group_by=["S.SrcIP"]) for window in windows(queries, seed)]
    return number_queries("hifi-grouped", selects)


def _make_ungrouped(queries: int, seed: int) -> Sequence[QueryText]:
    """Return variants of query 2 of HIFI."""
    selects = [select(["count(*) AS packets"], f"Snort S {window}") for window in windows(queries, seed)]
    return number_queries("hifi-ungrouped", selects)


WORKLOADS = (
    Workload(
        "hifi-grouped", "packets per source address, one slide, many ranges [HIFI Query 1]", KIND, 32, _make_grouped
    ),
    Workload(
        "hifi-ungrouped", "packets of all sources, one slide, many ranges [HIFI Query 2]", KIND, 32, _make_ungrouped
    ),
)
