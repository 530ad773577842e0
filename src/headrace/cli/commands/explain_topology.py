"""`headrace explain --topology`: what the six plans of HIFI would send over the links of a hierarchy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from rich.console import Console

from headrace.cli.tables import RIGHT, CellColumn, build_table, print_wide
from headrace.kernel.combine import ordered_groups, ordered_partials
from headrace.kernel.interchange import layout_of
from headrace.kernel.states.kinds import state_of
from headrace.model.errors import UsageError, nearest
from headrace.model.schema import Stream
from headrace.planner.cost import Cost
from headrace.planner.explain.labels import count_noun, figure
from headrace.planner.lattice import Node
from headrace.planner.placement.push_down import Estimate, Flow, Widths, cheapest
from headrace.planner.placement.topology import Topology

UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
KEY_COLUMNS = 4
"""Of a row of partials: node, start and end of the slice, cell."""
INDEX_BYTES = 4
"""Of a value in a dictionary, and of the offset of one without a fixed width."""


def stream_at_edges(topology: Topology, streams: Sequence[Stream]) -> Stream:
    """Return the stream that the edges read, among those that queries read. Results are computed at the root."""
    read = {stream.name.lower(): stream for stream in streams if stream.derived is None}
    if topology.stream is None:
        if len(read) != 1:
            hint = "say in the topology which one the edges read: stream = 'NAME'"
            raise UsageError("topology", f"the queries read {count_noun(len(read), 'stream')}", hint=hint)
        return next(iter(read.values()))
    if topology.stream.lower() not in read:
        names = [stream.name for stream in read.values()]
        problem = f"no query reads '{topology.stream}', the stream of the topology"
        raise UsageError("topology", problem, hint=nearest(topology.stream, names))
    return read[topology.stream.lower()]


# Bytes of rows


def widths_of(rows: pa.Table, cost: Cost) -> Widths:
    """Return the bytes of a row as it is read, and of a partial in the interchange format, neither compressed."""
    return Widths(rows.nbytes / rows.num_rows, lambda node: partial_bytes(node, cost))


def partial_bytes(node: Node, cost: Cost) -> float:
    """Return the bytes of a partial; what has no fixed width is measured on the sample, or declared by its kind."""
    size = sum(map(fixed_bytes, layout_of(node).types[:KEY_COLUMNS]))
    for tree in ordered_groups(node):
        values = cost.sample.evaluation.evaluate(tree).values
        size += float(values.nbytes) / max(1, len(values))
    for partial in ordered_partials(node):
        types = state_of(partial).columns(*(argument.type for argument in partial.arguments))
        is_fixed = all(map(has_fixed_width, types))
        size += sum(map(fixed_bytes, types)) if is_fixed else INDEX_BYTES + cost.state_bytes(partial, node)
    return size


def has_fixed_width(kind: pa.DataType) -> bool:
    try:
        return bool(kind.bit_width)
    except ValueError:
        return False


def fixed_bytes(kind: pa.DataType) -> float:
    return float(INDEX_BYTES if pa.types.is_dictionary(kind) else kind.bit_width / 8)


# For programs and for people


@dataclass(frozen=True)
class Placement:
    """What six plans would send."""

    stream: str
    topology: Topology
    estimates: Sequence[Estimate]

    def document(self) -> Mapping[str, Any]:
        return {
            "stream": self.stream,
            "root": self.topology.root,
            "chosen": cheapest(self.estimates).way.name,
            "plans": [plan_document(estimate, self.topology.levels) for estimate in self.estimates],
        }

    def print(self) -> None:
        """Print a line for each plan, with what it sends at each level of links."""
        chosen = cheapest(self.estimates)
        names = [estimate.way.name + (" (chosen)" if estimate is chosen else "") for estimate in self.estimates]
        columns = [CellColumn("plan", names)]
        for level in range(1, self.topology.levels + 1):
            where = f"to {self.topology.root}" if level == 1 else f"level {level}"
            flows = [estimate.at_level(level) for estimate in self.estimates]
            columns.append(CellColumn(f"tuples\n{where}", [figure(flow.rows_per_hour) for flow in flows], RIGHT))
            columns.append(CellColumn(f"bytes\n{where}", [size(flow.bytes_per_hour) for flow in flows], RIGHT))
        totals = [size(estimate.total.bytes_per_hour) for estimate in self.estimates]
        title = f"{self.stream} at {count_noun(len(self.topology.rows_per_s), 'edge')}, sent per hour"
        print_wide(Console(), build_table([*columns, CellColumn("bytes\nin all", totals, RIGHT)], title))


def size(number: float) -> str:
    """Bytes as a person reads them."""
    unit, least = next((unit for unit in UNITS if number >= unit[1]), UNITS[-1])
    return f"{figure(number / least)} {unit}"


def plan_document(estimate: Estimate, levels: int) -> Mapping[str, Any]:
    return {
        "plan": estimate.way.name,
        **flow_document(estimate.total),
        "levels": [flow_document(estimate.at_level(level)) for level in range(1, levels + 1)],
        "links": [
            {"from": link.lower, "to": link.upper, "level": link.level, **flow_document(flow)}
            for link, flow in estimate.flows.items()
        ],
    }


def flow_document(flow: Flow) -> Mapping[str, float]:
    return {"rows_per_hour": flow.rows_per_hour, "bytes_per_hour": flow.bytes_per_hour}
