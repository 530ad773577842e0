"""Windows, predicates and group-bys varied at once: every pair of 16 group-bys and 8 predicates over flow records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.datasets.netflow import KIND
from headrace.datasets.random_values import generator
from headrace.datasets.workloads.nfc import group_flows
from headrace.datasets.workloads.scripts import QueryText, WindowText, Workload, number_queries

GROUPINGS = (
    ("Protocol",),
    ("SourceAS",),
    ("InputInterface", "OutputInterface"),
    ("NextHop",),
    ("DestAS",),
    ("ToS",),
    ("InputInterface", "Protocol"),
    ("SourceAS", "Protocol"),
    ("OutputInterface",),
    ("Protocol", "ToS"),
    ("NextHop", "Protocol"),
    ("DestAS", "Protocol"),
    ("InputInterface",),
    ("OutputInterface", "Protocol"),
    ("InputInterface", "OutputInterface", "Protocol"),
    ("InputInterface", "ToS"),
)
"""Reports with tens to a thousand groups, each of many flows: what watches a network around the clock."""
PREDICATES = (
    "",
    "Protocol = 6",
    "Protocol = 17 AND Packets <= 2",
    "DestPort IN (80, 443)",
    "SourcePort < 1024 AND Bytes >= 10000",
    "Packets > 10",
    "Bytes > 1500 OR ToS > 0",
    "InputInterface <> OutputInterface AND Packets >= 3",
)


def _window(rng: np.random.Generator) -> WindowText:
    slide_s = int(rng.integers(30, 301))
    return WindowText(int(rng.integers(slide_s, 601)), slide_s)


def _pairs(queries: int, seed: int) -> Sequence[QueryText]:
    """Return each pair once before any comes again; a repeated pair has a window of its own."""
    rng = generator(seed)
    selects = []
    for n in range(queries):
        pair = n % (len(GROUPINGS) * len(PREDICATES))
        # Stepping through predicates along the group-bys keeps both mixed in a short workload.
        attributes = GROUPINGS[pair % len(GROUPINGS)]
        predicate = PREDICATES[(pair + pair // len(GROUPINGS)) % len(PREDICATES)]
        selects.append(group_flows(attributes, _window(rng), predicate))
    return number_queries("grouped", selects)


WORKLOADS = (
    Workload(
        "grouped",
        "16 group-bys x 8 predicates with random windows",
        KIND,
        len(GROUPINGS) * len(PREDICATES),
        _pairs,
    ),
)
