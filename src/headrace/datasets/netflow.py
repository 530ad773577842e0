"""NetFlow records of a router between some hundred autonomous systems, with the attributes that NFC groups by [NFC I].

The records follow from conversations between a client and a server, so that attributes depend on each other as they do
in a network: autonomous system and interface on the address prefix, next hop on the destination's system, ports on the
service.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from headrace.datasets.files import TIMESTAMP
from headrace.datasets.kinds import Chunk, Columns, DataKind, Recipe, RowGenerator
from headrace.datasets.random_values import (
    Booleans,
    Codes,
    Weighted,
    format_addresses,
    generator,
    partition,
    sample,
)
from headrace.model.arrays import Integers

SCHEMA_SQL = """\
CREATE STREAM Flows (
  Time TIMESTAMP, StartTime TIMESTAMP, SourceAddr ADDRESS, DestAddr ADDRESS, NextHop ADDRESS,
  SourcePort BIGINT, DestPort BIGINT, Protocol BIGINT, ToS BIGINT, InputInterface BIGINT, OutputInterface BIGINT,
  SourceAS BIGINT, DestAS BIGINT, Packets BIGINT, Bytes BIGINT)
  EVENT TIME Time LATENESS '5 s';
"""

SYSTEMS, PREFIXES, HOSTS, SERVERS, CONVERSATIONS = 400, 3_000, 24_000, 4_000, 60_000
INTERFACES, NEXT_HOPS = 12, 30

ICMP, TCP, UDP = 1, 6, 17
SERVICES = (
    (80, TCP, 400), (53, UDP, 170), (443, TCP, 120), (25, TCP, 70), (6881, TCP, 60), (0, ICMP, 35), (445, TCP, 30),
    (123, UDP, 30), (22, TCP, 20), (110, TCP, 20), (1433, TCP, 12), (5060, UDP, 12), (21, TCP, 11), (3306, TCP, 10),
)  # fmt: skip
"""Port, protocol and conversations per thousand."""

TYPES_OF_SERVICE = {0: 90, 8: 3, 16: 3, 184: 2, 40: 1, 72: 1}
TAIL_EXPONENT = 1.1
"""Of the Pareto distribution of packets per flow: most flows are a few packets, most packets are in a few flows."""

ACTIVE_TIMEOUT_US = 1_800_000_000
GAP_US = 300_000


class Flows(RowGenerator):
    """Each record draws a conversation and a direction, then a client port and a size."""

    def __init__(self, recipe: Recipe) -> None:
        rng = generator(recipe.seed, 1)
        self._set_up_hosts(rng)
        self._set_up_conversations(rng)
        quantile = (np.arange(1 << 16) + 0.5) / (1 << 16)
        self._packets = np.floor((1.0 - quantile) ** (-1.0 / TAIL_EXPONENT) + 1e-6).astype(np.int64)

    def _set_up_hosts(self, rng: np.random.Generator) -> None:
        prefix = np.repeat(np.arange(PREFIXES), partition(rng, HOSTS, PREFIXES))
        place = np.arange(HOSTS) - np.searchsorted(prefix, prefix)
        network = (24 << 16) + np.sort(sample(rng, 100 << 14, PREFIXES)) * 3
        system_of_prefix = np.repeat(np.arange(SYSTEMS), partition(rng, PREFIXES, SYSTEMS))
        self._addresses = format_addresses((network[prefix] << 8) + 1 + place)
        self._system = system_of_prefix[prefix]
        self._system_numbers = np.sort(1 + sample(rng, 64_000, SYSTEMS))
        self._next_hop = rng.integers(0, NEXT_HOPS, SYSTEMS)
        self._next_hops = format_addresses((10 << 24) + (np.arange(NEXT_HOPS) << 8) + 1)

    def _set_up_conversations(self, rng: np.random.Generator) -> None:
        hosts = sample(rng, HOSTS, HOSTS)
        servers, clients = hosts[:SERVERS], hosts[SERVERS:]
        self._client = clients[(rng.random(CONVERSATIONS) * len(clients)).astype(np.int64)]
        self._server = servers[(np.square(rng.random(CONVERSATIONS)) * SERVERS).astype(np.int64)]
        ports, protocols, weights = (np.array(part) for part in zip(*SERVICES, strict=True))
        service = Weighted.by(weights).draw(rng, CONVERSATIONS)
        self._port, self._protocol = ports[service], protocols[service]
        self._first_port = rng.integers(0, 16_000, CONVERSATIONS)
        marks = Weighted.by(list(TYPES_OF_SERVICE.values())).draw(rng, CONVERSATIONS)
        self._type_of_service = np.array(list(TYPES_OF_SERVICE))[marks]
        self._popularity = Weighted.by(1.0 / (10.0 + np.arange(CONVERSATIONS)))

    def columns(self, chunk: Chunk) -> Columns:
        """Return the attributes of each record from its conversation, and the size of its flow."""
        rng, count = chunk.rng, chunk.count
        conversation = self._popularity.draw(rng, count)
        from_server = rng.random(count) < 0.5
        client, server = self._client[conversation], self._server[conversation]
        source, destination = np.where(from_server, server, client), np.where(from_server, client, server)
        service_port, protocol = self._port[conversation], self._protocol[conversation]
        client_port = np.where(protocol == ICMP, 0, self._client_ports(rng, conversation))
        packets, octets, duration_us = self._sizes(rng, protocol, from_server)
        source_system, destination_system = self._system[source], self._system[destination]
        next_hop = self._next_hop[destination_system]
        return {
            "StartTime": pa.array(chunk.times_us - duration_us, type=TIMESTAMP),
            "SourceAddr": self._addresses.take(source),
            "DestAddr": self._addresses.take(destination),
            "NextHop": self._next_hops.take(next_hop),
            "SourcePort": np.where(from_server, service_port, client_port),
            "DestPort": np.where(from_server, client_port, service_port),
            "Protocol": protocol,
            "ToS": self._type_of_service[conversation],
            "InputInterface": 1 + self._next_hop[source_system] % INTERFACES,
            "OutputInterface": 1 + next_hop % INTERFACES,
            "SourceAS": self._system_numbers[source_system],
            "DestAS": self._system_numbers[destination_system],
            "Packets": packets,
            "Bytes": octets,
        }

    def _client_ports(self, rng: np.random.Generator, conversation: Codes) -> Integers:
        """Return one of eight ports of the conversation: long connections are reported several times."""
        connection = (np.square(rng.random(len(conversation))) * 8).astype(np.int64)
        port: Integers = 1_024 + (self._first_port[conversation] + connection) % 16_000
        return port

    def _sizes(
        self, rng: np.random.Generator, protocol: Integers, from_server: Booleans
    ) -> tuple[Integers, Integers, Integers]:
        """Return packets, bytes and duration: datagrams are short exchanges, and servers send larger packets."""
        quantile = rng.integers(0, 1 << 16, len(protocol))
        packets = np.where(protocol == TCP, 2 + self._packets[quantile], 1 + (quantile >> 15))
        room = np.where(from_server & (protocol == TCP), 1_400, 160)
        octets = packets * (40 + (rng.random(len(protocol)) * room).astype(np.int64))
        duration_us = ((packets - 1) * (rng.random(len(protocol)) * GAP_US)).astype(np.int64)
        return packets, octets, np.minimum(duration_us, ACTIVE_TIMEOUT_US)


KIND = DataKind(
    name="netflow",
    summary="NetFlow records of one router with correlated attributes, one hour [NFC VI]",
    stream="Flows",
    schema_sql=SCHEMA_SQL,
    default_rows=1_000_000,
    default_span_s=3_600,
    default_start=datetime(2006, 12, 1, 0, 0, tzinfo=UTC),
    default_file_span_s=300,
    prepare=Flows,
)
