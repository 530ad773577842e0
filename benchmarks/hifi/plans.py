"""The six plans of HIFI 5, run by the kernel: what edges send, rows or partials, and what the root makes of it.

Queries that share have one channel, the others one each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregates.partials import Partial
from headrace.engine.answers import answer, close_all
from headrace.expressions.static_tables import Data
from headrace.kernel.close.instances import MAX_EMPTY, Due
from headrace.kernel.close.retained_partials import Retained
from headrace.kernel.close.windows import Part, close
from headrace.kernel.combine import NodePartials, combine, concatenate
from headrace.kernel.groups import encode_columns
from headrace.kernel.interchange import pack, unpack
from headrace.kernel.level1.fold import compute, fold_chunk, level_one
from headrace.kernel.level1.reader import Reader, ReadResult
from headrace.kernel.level1.rows import NodeRows, StreamRows
from headrace.kernel.states.columns import Columns
from headrace.kernel.states.totals import IntegerTotals
from headrace.model.arrays import Integers
from headrace.model.arrow import one_array
from headrace.model.query import Query
from headrace.model.windows import AnyWindow, Window
from headrace.planner.demand import demand, leaves_of
from headrace.planner.lattice import Node
from headrace.planner.placement.push_down import PushDown, Way
from headrace.planner.plan import STREAM, Answer, Plan, PlannedNode
from headrace.windows import Boundaries, bounds_of, compose, instances_of, paired_boundaries

Slicing = Callable[[AnyWindow], Boundaries]
Tables = tuple[pa.Table, ...]
Sent = Mapping[str, Tables]
Results = Mapping[str, pa.Table]
WHOLE = ""
"""What an edge sends is for all queries of a channel; windows are for one, and go by its name."""


@dataclass(frozen=True, eq=False)
class Executed:
    """The results of each query, and what all edges sent: rows, and bytes of Arrow columns."""

    results: Results
    rows: int
    bytes: int


def execute(
    way: Way, edges: Sequence[Edge], queries: Mapping[str, Query], shared: Plan, max_empty: int = MAX_EMPTY
) -> Executed:
    """Run one of the six plans; `shared` is the one that shares."""
    results: dict[str, pa.Table] = {}
    rows, size = 0, 0
    for channel in channels_of(way, queries, shared):
        sent = [SEND[way.push_down](channel, edge) for edge in edges]
        tables = [table for each in sent for some in each.values() for table in some]
        rows += sum(table.num_rows for table in tables)
        size += sum(table.nbytes for table in tables)
        results |= RECEIVE[way.push_down](channel, sent, edges[0].data, max_empty)
    return Executed(results, rows, size)


@dataclass(frozen=True)
class Channel:
    """Queries that are answered from what is sent once for all of them."""

    plan: Plan
    queries: Mapping[str, Query]


def channels_of(way: Way, queries: Mapping[str, Query], shared: Plan) -> Iterator[Channel]:
    if way.is_shared:
        yield Channel(shared, queries)
    else:
        for name, query in queries.items():
            yield Channel(sliced_plan({name: query}), {name: query})


def sliced_plan(queries: Mapping[str, Query], slicing: Slicing = paired_boundaries) -> Plan:
    """Plan a common subquery for all queries of one predicate and group-by, straight from the stream [HIFI 4.2]."""
    demands = {name: demand(query) for name, query in queries.items()}
    leaves = leaves_of(demands)
    nodes = [replace(leaf.node, boundaries=compose(slicing(ask.window) for ask in leaf.asks)) for leaf in leaves]
    return Plan(
        tuple(PlannedNode(node, STREAM, 0.0, 0.0) for node in nodes),
        tuple(Answer(leaf, place, 0.0) for place, leaf in enumerate(leaves)),
        demands,
        0.0,
        {},
    )


# At the edge


class Edge:
    """Rows beside each other with their partners, coded once for all plans of the queries."""

    def __init__(self, data: Data, queries: Mapping[str, Query]) -> None:
        timed = data.rows.filter(pc.is_valid(data.rows[data.stream.event_time]))
        self.data = replace(data, rows=timed)
        reader = Reader(self.data, queries, sliced_plan(queries))
        evaluation, positions = reader.joiner.batch(timed)
        times_us = np.asarray(one_array(timed[data.stream.event_time]).cast(pa.int64()))
        self.source = StreamRows(evaluation, times_us, reader.finest, partial(reader.table_codes, positions))

    def partials(self, plan: Plan) -> Mapping[int, NodePartials]:
        """Compute what the plan ships."""
        if not self.data.rows.num_rows:
            return {}
        functions, zone = self.data.catalog.functions, self.data.stream.zone
        (shipped,) = level_one(plan, [fold_chunk(plan, self.source)], functions, zone)
        return shipped


def send_rows(channel: Channel, edge: Edge) -> Sent:
    return {WHOLE: (edge.data.rows,)}


def send_slices(channel: Channel, edge: Edge) -> Sent:
    return {WHOLE: pack(edge.data.stream.name, edge.partials(channel.plan).values())}


def send_windows(channel: Channel, edge: Edge) -> Sent:
    retained = Retained(edge.data.catalog.functions, edge.data.stream.zone)
    retained.add(channel.plan, edge.partials(channel.plan))
    return {
        name: pack(edge.data.stream.name, windows_at_edge(query, channel.plan, retained))
        for name, query in channel.queries.items()
    }


SEND = {PushDown.NONE: send_rows, PushDown.PARTIAL: send_slices, PushDown.FULL: send_windows}


def windows_at_edge(query: Query, plan: Plan, retained: Retained) -> Iterator[NodePartials]:
    """Make the query's windows over the rows of this edge, as partials: other edges have rows of the same windows."""
    parts = retained.gather(demand(query)).parts
    for node, part in zip(window_nodes(query, plan), parts, strict=bool(parts)):
        found = windows_of(query.window, part.leaf, node, retained)
        if found is not None:
            yield found


def window_nodes(query: Query, plan: Plan) -> list[Node]:
    """Return a node for each way that partials of a query come."""
    ends = window_ends(query.window)
    routes = plan.routes[demand(query)]
    return [replace(route.leaf, boundaries=(ends,), partials=route.partials) for route in routes]


def window_ends(window: AnyWindow) -> Boundaries:
    return Boundaries(window.slide_us, (window.offset_us,)) if isinstance(window, Window) else paired_boundaries(window)


def windows_of(window: AnyWindow, slices: NodePartials, node: Node, retained: Retained) -> NodePartials | None:
    """Put every slice into its windows; a window stands for a moment at its end while they meet."""
    first, last = instances_of(window, slices.starts_us, slices.ends_us)
    held_by = last - first + 1
    layers = []
    for number in range(int(held_by.max(initial=0))):
        rows = np.flatnonzero(held_by > number)
        ends_us = bounds_of(window, first[rows] + number)[1]
        layers.append(some_of(slices, rows, ends_us - 1, ends_us))
    if not layers:
        return None
    found = compute(node, NodeRows(concatenate(layers), retained.functions, retained.zone))
    starts_us = found.ends_us - window.range_us if isinstance(window, Window) else found.starts_us
    return replace(found, starts_us=starts_us)


def some_of(part: NodePartials, rows: Integers, starts_us: Integers, ends_us: Integers) -> NodePartials:
    """Take some rows, at other times."""
    groups = encode_columns(part.groups, part.rows).at(rows)
    return NodePartials(part.node, starts_us, ends_us, part.cells[rows], groups, states_at(part.states, rows))


def states_at(states: Mapping[Partial, Columns], rows: Integers) -> Mapping[Partial, Columns]:
    if isinstance(states, IntegerTotals):
        return IntegerTotals({partial: np.take(own, rows) for partial, own in states.numbers.items()}, states.bound)
    places = pa.array(rows)
    return {partial: tuple(column.take(places) for column in state) for partial, state in states.items()}


# At the root: of `data` only what it is, not its rows


def receive_rows(channel: Channel, sent: Sequence[Sent], data: Data, max_empty: int) -> Results:
    rows = pa.concat_tables(table for each in sent for table in each[WHOLE])
    whole = replace(data, rows=rows)
    closed = answer(whole, channel.queries, channel.plan, max_empty=max_empty, threads=1).closed
    return {name: found.table for name, found in closed.items()}


def receive_slices(channel: Channel, sent: Sequence[Sent], data: Data, max_empty: int) -> Results:
    places = {channel.plan.nodes[place].node: place for place in channel.plan.shipped}
    received = combine_tables(data.stream.name, [each[WHOLE] for each in sent], places)
    run = ReadResult(Retained(data.catalog.functions, data.stream.zone))
    run.retained.add(channel.plan, {places[part.node]: part for part in received})
    closed = close_all(run, data, channel.queries, max_empty)
    return {name: found.table for name, found in closed.items()}


def receive_windows(channel: Channel, sent: Sequence[Sent], data: Data, max_empty: int) -> Results:
    results = {}
    for name, query in channel.queries.items():
        nodes = window_nodes(query, channel.plan)
        parts = combine_tables(data.stream.name, [each[name] for each in sent], nodes)
        results[name] = closed_windows(query, parts, data, max_empty)
    return results


RECEIVE = {PushDown.NONE: receive_rows, PushDown.PARTIAL: receive_slices, PushDown.FULL: receive_windows}


def combine_tables(stream: str, sent: Sequence[Tables], nodes: Iterable[Node]) -> list[NodePartials]:
    """Combine what edges sent: for each node one row per slice, cell and group."""
    received: dict[Node, list[NodePartials]] = {}
    for part in unpack(stream, [table for tables in sent for table in tables], nodes):
        received.setdefault(part.node, []).append(part)
    return [combine(parts) for parts in received.values()]


def closed_windows(query: Query, parts: Sequence[NodePartials], data: Data, max_empty: int) -> pa.Table:
    """Close windows that are whole already, one after the other, with the empty ones between them.

    Each stands for a moment at its end, so that it does not cross the empty ones.
    """
    functions, zone = data.catalog.functions, data.stream.zone
    ends_us = np.unique(np.concatenate([part.ends_us for part in parts])) if parts else np.empty(0, dtype=np.int64)
    tables = [close(query, []).table]
    before_us = None
    for end_us in ends_us.tolist():
        own = []
        for part in parts:
            rows = np.flatnonzero(part.ends_us == end_us)
            moment = some_of(part, rows, part.ends_us[rows] - 1, part.ends_us[rows])
            own.append(Part(moment, part.node.partials))
        due = Due(end_us - 1, end_us, before_us)
        tables.append(close(query, own, (), functions, zone, max_empty, due).table)
        before_us = end_us
    return pa.concat_tables(tables)
