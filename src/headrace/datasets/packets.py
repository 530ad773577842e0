"""IP packets in groups of source address (A), destination address (B), source port (C) and destination port (D).

The trace of GS has 860,000 packets in 62 s, with 552, 1,846, 2,117 and 2,837 groups on the first one to four attributes
and between 552 and 2,836 on the other subsets [GS 4, 6]. Packets of a group come in flows, and flows are interleaved.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from headrace.datasets.kinds import Chunk, Columns, DataKind, Recipe, RowGenerator
from headrace.datasets.random_values import (
    Codes,
    Weighted,
    format_addresses,
    generator,
    hosts,
    partition,
    sample,
)
from headrace.model.arrays import Integers

SCHEMA_SQL = """\
CREATE STREAM Packets (
  Time TIMESTAMP, SourceIP ADDRESS, DestIP ADDRESS, SourcePort BIGINT, DestPort BIGINT, Length BIGINT)
  EVENT TIME Time LATENESS '5 s';
"""

GROUPS_A, GROUPS_AB, GROUPS_ABC, GROUPS_ABCD = 552, 1_846, 2_117, 2_837
DESTINATIONS = 800
CLIENT_PORTS = 1_500
SERVICES = (80, 443, 25, 53, 123, 110, 22, 139, 21, 20, 143, 993, 445, 135, 137, 119)
PORTS = len(SERVICES) + CLIENT_PORTS
OPEN_FLOWS = 8
"""Flows that are interleaved at a time: few, so that they seldom meet in a bucket, as GS assumes [GS 4]."""

SKEW = 1.47
"""Exponent at which 3% of 2,837 groups carry 92% of the packets [UDAF 5]."""

LENGTHS = {40: 38, 44: 4, 52: 8, 64: 3, 120: 3, 256: 3, 552: 5, 576: 9, 1_024: 3, 1_420: 5, 1_500: 19}


@dataclass(frozen=True, slots=True)
class Preset:
    """How packets choose their group: mean packets per flow, and how unequal the groups are (0 is equal)."""

    flow_length: float
    skew: float


PRESETS = {"gigascope": Preset(32.0, 0.0), "uniform": Preset(1.0, 0.0), "skewed": Preset(1.0, SKEW)}


class Packets(RowGenerator):
    """Every packet belongs to one of a few open flows; a flow that ends makes room for one of another group."""

    def __init__(self, recipe: Recipe) -> None:
        rng = generator(recipe.seed, 1)
        preset = PRESETS[recipe.preset or "gigascope"]
        self._full_chunks = recipe.full_chunks
        self._flow_length = preset.flow_length if recipe.flow_length is None else recipe.flow_length
        self._groups = _groups(rng)
        self._sources = format_addresses(hosts(rng, GROUPS_A))
        self._destinations = format_addresses(hosts(rng, DESTINATIONS))
        self._ports = _ports(rng)
        ranks = 1.0 + sample(rng, GROUPS_ABCD, GROUPS_ABCD)
        self._shares = Weighted.by(np.rint(1e9 * ranks**-preset.skew))
        self._lengths = np.array(list(LENGTHS))
        self._length_shares = Weighted.by(list(LENGTHS.values()))

    def columns(self, chunk: Chunk) -> Columns:
        """Return the attributes of each packet's group, and its length."""
        flow, flows = _flows(chunk.rng, chunk.count, self._flow_length)
        group = self._flow_groups(chunk, flows)[flow]
        source, destination, source_port, destination_port = self._groups
        return {
            "SourceIP": self._sources.take(source[group]),
            "DestIP": self._destinations.take(destination[group]),
            "SourcePort": self._ports[source_port[group]],
            "DestPort": self._ports[destination_port[group]],
            "Length": self._lengths[self._length_shares.draw(chunk.rng, chunk.count)],
        }

    def _flow_groups(self, chunk: Chunk, flows: int) -> Codes:
        """Draw a group for each flow; each group is due in one full chunk and, undrawn, takes another's second flow."""
        groups = self._shares.draw(chunk.rng, flows)
        drawn, first = np.unique(groups, return_index=True)
        due = np.arange(chunk.index, GROUPS_ABCD, self._full_chunks) if chunk.index < self._full_chunks else drawn
        missing = np.setdiff1d(due, drawn)
        spare = np.delete(np.arange(flows), first)
        places = spare[sample(chunk.rng, len(spare), len(missing))]
        groups[places] = missing[: len(places)]
        return groups


def _flows(rng: np.random.Generator, count: int, mean_length: float) -> tuple[Integers, int]:
    """Return the flow of each packet, numbered from 0, and how many there are; lengths are geometric."""
    slot = rng.integers(0, OPEN_FLOWS, count, dtype=np.uint8)
    by_slot = np.argsort(slot, kind="stable")
    begins = rng.random(count) * mean_length < 1.0
    begins[np.flatnonzero(np.diff(slot[by_slot], prepend=np.uint8(OPEN_FLOWS)))] = True
    flow = np.empty(count, dtype=np.int64)
    flow[by_slot] = np.cumsum(begins) - 1
    return flow, int(np.count_nonzero(begins))


def _ports(rng: np.random.Generator) -> Integers:
    """Return services first, then the ports that clients use."""
    return np.concatenate([np.array(SERVICES), 1_024 + sample(rng, 48_000, CLIENT_PORTS)])


def _groups(rng: np.random.Generator) -> tuple[Integers, Integers, Integers, Integers]:
    """Return the four attributes of all groups as indices: a tree whose levels have as many nodes as GS counts groups.

    Children of one parent take neighbouring values, so they differ. A server's port faces a client's port, or the same
    port where servers talk to their like (name servers, clocks); a client's port faces a server's.
    """
    destination_of, source = _children(rng, GROUPS_A, GROUPS_AB)
    destination = (_low(rng, GROUPS_A, DESTINATIONS)[source] + destination_of) % DESTINATIONS
    source_port_of, pair = _children(rng, GROUPS_AB, GROUPS_ABC)
    serves, service = rng.random(GROUPS_A) < 0.5, _low(rng, GROUPS_A, len(SERVICES))
    first = np.where(serves[source], service[source], _client(rng, GROUPS_AB))
    source_port = (first[pair] + source_port_of) % PORTS
    destination_port_of, triple = _children(rng, GROUPS_ABC, GROUPS_ABCD)
    peer = np.where(rng.random(GROUPS_ABC) < 0.3, source_port, _client(rng, GROUPS_ABC))
    first = np.where(source_port < len(SERVICES), peer, _low(rng, GROUPS_ABC, len(SERVICES)))
    destination_port = (first[triple] + destination_port_of) % PORTS
    return source[pair[triple]], destination[pair[triple]], source_port[triple], destination_port


def _children(rng: np.random.Generator, parents: int, nodes: int) -> tuple[Integers, Integers]:
    """Give each parent at least one of the nodes; return each node's place among its siblings and its parent."""
    sizes = partition(rng, nodes, parents)
    parent = np.repeat(np.arange(parents), sizes)
    return np.arange(nodes) - (np.cumsum(sizes) - sizes)[parent], parent


def _low(rng: np.random.Generator, size: int, below: int) -> Integers:
    """Return numbers below a limit that favour the small ones."""
    return (np.square(rng.random(size)) * below).astype(np.int64)


def _client(rng: np.random.Generator, size: int) -> Integers:
    return len(SERVICES) + rng.integers(0, CLIENT_PORTS, size)


KIND = DataKind(
    name="packets",
    summary="IP packets in flows, 62 seconds, with the group counts of a server's trace [GS 6.1]",
    stream="Packets",
    schema_sql=SCHEMA_SQL,
    default_rows=860_000,
    default_span_s=62,
    default_start=datetime(2004, 11, 1, 12, 0, tzinfo=UTC),
    default_file_span_s=10,
    prepare=Packets,
    presets=tuple(PRESETS),
    presets_with_flows=frozenset({"gigascope", "skewed"}),
)
