"""Traffic per group of flow attributes: the aggregations of a flow collector, and random ones with filters [NFC VI]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.datasets.netflow import KIND
from headrace.datasets.random_values import generator, sample
from headrace.datasets.workloads.scripts import QueryText, WindowText, Workload, number_queries, select

PERIOD = WindowText(300, 300)
MEASURES = ("sum(Packets) AS packets", "sum(Bytes) AS bytes", "count(*) AS flows")
ADDRESSES = ("SourceAddr", "DestAddr")
SERVICE = ("SourcePort", "DestPort", "Protocol")
INTERFACES = ("InputInterface", "OutputInterface")
SYSTEMS = ("SourceAS", "DestAS")
ATTRIBUTES = (*ADDRESSES, *SERVICE, "ToS", *INTERFACES, "NextHop", *SYSTEMS)

NETWORKS = {"SourceNet": "ip_prefix(SourceAddr, 24)", "DestNet": "ip_prefix(DestAddr, 24)"}

AGGREGATIONS: dict[str, tuple[str, ...]] = {
    "SourceNode": ("SourceAddr",),
    "DestNode": ("DestAddr",),
    "HostMatrix": ADDRESSES,
    "SourcePort": ("SourcePort",),
    "DestPort": ("DestPort",),
    "Protocol": ("Protocol",),
    "DetailSourceNode": ("SourceAddr", *SERVICE),
    "DetailDestNode": ("DestAddr", *SERVICE),
    "DetailHostMatrix": (*ADDRESSES, *SERVICE),
    "CallRecord": (*ADDRESSES, *SERVICE, "ToS"),
    "DetailInterface": (*ADDRESSES, *INTERFACES, "NextHop"),
    "ASMatrix": SYSTEMS,
    "NetMatrix": ("SourceNet", "DestNet", *INTERFACES),
    "DetailASMatrix": (*SYSTEMS, *INTERFACES, *SERVICE),
}
"""The aggregation schemes of Cisco's FlowCollector 3.0, which NFC VI runs, by name."""

RANGES = (
    ("DestPort", 0, 17_000, 20),
    ("SourcePort", 0, 17_000, 20),
    ("SourceAS", 1, 64_000, 1_000),
    ("DestAS", 1, 64_000, 1_000),
    ("InputInterface", 1, 12, 1),
    ("OutputInterface", 1, 12, 1),
    ("Protocol", 1, 17, 1),
    ("Packets", 1, 40, 1),
    ("Bytes", 40, 40_000, 40),
)
"""Attributes that random filters restrict: name, lowest and highest value, and the step of the constants."""


def group_flows(attributes: Sequence[str], window: WindowText, where: str = "") -> str:
    """Return packets, bytes and flows per group; networks are named by an alias."""
    outputs = [f"{NETWORKS[name]} AS {name}" if name in NETWORKS else name for name in attributes]
    group_by = [NETWORKS.get(name, name) for name in attributes]
    return select([*outputs, *MEASURES], f"Flows {window}", where, group_by)


def _flow_collector(queries: int, seed: int) -> Sequence[QueryText]:
    first = list(AGGREGATIONS.items())[:queries]
    return [QueryText(name, group_flows(attributes, PERIOD)) for name, attributes in first]


def _random(queries: int, seed: int) -> Sequence[QueryText]:
    rng = generator(seed)
    return number_queries("nfc-random", [group_flows(_subset(rng), PERIOD, _filter(rng)) for _ in range(queries)])


def _subset(rng: np.random.Generator) -> list[str]:
    """Return one to five attributes, in the order of the record."""
    size = int(rng.integers(1, 6))
    return [ATTRIBUTES[n] for n in sorted(sample(rng, len(ATTRIBUTES), size))]


def _filter(rng: np.random.Generator) -> str:
    """Return no condition, one, or two on different attributes joined by AND or OR [NFC III]."""
    conditions = int(rng.integers(0, 3))
    joined = (" AND ", " OR ")[rng.integers(2)]
    return joined.join(_condition(rng, *RANGES[n]) for n in sample(rng, len(RANGES), conditions))


def _condition(rng: np.random.Generator, name: str, lowest: int, highest: int, step: int) -> str:
    """Return a range of an attribute, with one bound or two."""
    low, high = sorted(lowest + step * rng.integers(0, (highest - lowest) // step, 2, endpoint=True))
    forms = (f"{name} >= {low}", f"{name} <= {high}", f"{name} BETWEEN {low} AND {high}")
    return forms[rng.integers(len(forms))]


WORKLOADS = (
    Workload(
        "nfc-flowcollector",
        "the aggregations of Cisco's FlowCollector, every 5 minutes [NFC VI]",
        KIND,
        len(AGGREGATIONS),
        _flow_collector,
        max_queries=len(AGGREGATIONS),
    ),
    Workload("nfc-random", "random attributes and filters, every 5 minutes [NFC V, VI]", KIND, 64, _random),
)
