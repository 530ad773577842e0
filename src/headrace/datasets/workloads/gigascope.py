"""Packets per group of addresses and ports, in GSQL's form: an epoch in the GROUP BY instead of a window [GS 2, 6]."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headrace.datasets.packets import KIND
from headrace.datasets.workloads.scripts import QueryText, Workload, select

EPOCH_S = 5
ATTRIBUTES = {"A": "SourceIP", "B": "DestIP", "C": "SourcePort", "D": "DestPort"}
NAMES = {"A": "source_ip", "B": "dest_ip", "C": "source_port", "D": "dest_port"}
SINGLE = ("A", "B", "C", "D")
PAIRS = ("AB", "BC", "BD", "CD")


def _query(attributes: str) -> QueryText:
    columns = [ATTRIBUTES[letter] for letter in attributes]
    outputs = ["tb", *columns, "count(*) AS packets"]
    name = "_".join(NAMES[letter] for letter in attributes)
    return QueryText(name, select(outputs, "Packets", group_by=[f"Time/{EPOCH_S} AS tb", *columns]))


def _first(relations: tuple[str, ...], queries: int, seed: int) -> Sequence[QueryText]:
    return [_query(attributes) for attributes in relations[:queries]]


WORKLOADS = (
    Workload(
        "gs-single",
        "packets per source address, destination address, source port and destination port [GS 6]",
        KIND,
        4,
        partial(_first, SINGLE),
        max_queries=4,
    ),
    Workload(
        "gs-pairs",
        "packets per pair of addresses and ports: AB, BC, BD, CD [GS 6]",
        KIND,
        4,
        partial(_first, PAIRS),
        max_queries=4,
    ),
)
