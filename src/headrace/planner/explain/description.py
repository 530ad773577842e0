"""A plan described: the nodes with what they hold and cost, and for each query where its answer comes from.

The description is made of plain dictionaries, so that it can be written as JSON; docs/explain.md lists the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NotRequired, TypedDict

from headrace.aggregates.partials import Partial
from headrace.model.query import Query
from headrace.planner.cost import Cost, overlap
from headrace.planner.demand import Ask
from headrace.planner.explain.labels import NodePrinter, percent
from headrace.planner.explain.superquery import rewrite
from headrace.planner.lattice import EVERYTHING
from headrace.planner.plan import STREAM, Answer, Plan, PlannedNode
from headrace.sql import format_query
from headrace.windows import slices_per_hour


class DimensionDescription(TypedDict):
    expression: str
    kind: str
    cells: int


class NodeDescription(TypedDict):
    id: str
    parent: str | None
    slices_per_hour: float
    dimensions: list[DimensionDescription]
    cells: int
    groups: list[str]
    predicates: int
    filter: str | None
    passes: float
    partials: list[str]
    states: list[str]
    reads: float
    rows: float
    cost_ns: float
    close_ns: float
    share: float
    shipped: bool
    queries: list[str]


class RouteDescription(TypedDict):
    node: str
    partials: list[str]
    rows: float
    of_rows: float


class StepDescription(TypedDict):
    node: str
    other_queries: int


class QueryDescription(TypedDict):
    name: str
    text: str
    where: str | None
    routes: list[RouteDescription]
    path: list[StepDescription]
    alone_ns: float
    share_ns: float
    rewrite: str


class AdditionDescription(TypedDict):
    query: QueryDescription
    added_ns: float
    changed: list[str]
    new: list[str]
    unchanged: int


class CostDescription(TypedDict):
    coding_ns: float
    tree_ns: float
    total_ns: float


class PlanDescription(TypedDict):
    stream: str
    batch_rows: float
    rows_per_s: float
    plan: CostDescription
    alone: CostDescription
    ratio: float
    nodes: list[NodeDescription]
    queries: list[QueryDescription]
    added: NotRequired[AdditionDescription]


def explain(plan: Plan, queries: Mapping[str, Query], cost: Cost) -> PlanDescription:
    """`queries` by name are those that the plan was made for, `cost` is what it was made with."""
    stream = next(iter(queries.values())).stream
    printer = NodePrinter(stream, queries.values())
    served = serves(plan)
    nodes = [describe_node(plan, place, served[place], printer, cost) for place in range(len(plan.nodes))]
    coding_ns = sum(cost.coding([demand]) for demand in plan.demands.values())
    shares = fair_shares(plan)
    alone_ns = sum(plan.alone_ns.values())
    return PlanDescription(
        stream=stream,
        batch_rows=cost.sample.batch_rows,
        rows_per_s=cost.sample.rows_per_s,
        plan=costs(plan.coding_ns, plan.cost_ns),
        alone=costs(coding_ns, alone_ns),
        ratio=alone_ns / plan.cost_ns if plan.cost_ns else 1.0,
        nodes=nodes,
        queries=[describe_query(plan, name, queries[name], nodes, shares, printer, cost) for name in plan.demands],
    )


def explain_addition(
    before: Plan, after: Plan, name: str, queries: Mapping[str, Query], cost: Cost
) -> AdditionDescription:
    """What the query `name` of the plan `after` adds to the plan `before`, whose nodes keep their places."""
    known = {planned.node for planned in before.nodes}
    touched = [place for place, planned in enumerate(after.nodes) if planned.node not in known]
    description = explain(after, queries, cost)
    return AdditionDescription(
        query=next(query for query in description["queries"] if query["name"] == name),
        added_ns=after.cost_ns - before.cost_ns,
        changed=[name_of(place) for place in touched if place < len(before.nodes)],
        new=[name_of(place) for place in touched if place >= len(before.nodes)],
        unchanged=len(after.nodes) - len(touched),
    )


def costs(coding_ns: float, total_ns: float) -> CostDescription:
    return CostDescription(coding_ns=coding_ns, tree_ns=total_ns - coding_ns, total_ns=total_ns)


def name_of(place: int) -> str:
    return f"n{place + 1}"


def describe_node(plan: Plan, place: int, served: Sequence[str], printer: NodePrinter, cost: Cost) -> NodeDescription:
    planned = plan.nodes[place]
    node, parent = planned.node, None if planned.parent == STREAM else plan.nodes[planned.parent].node
    passes = cost.sample.selectivity(node.keep)
    close_ns = sum(answer.cost_ns for answer in plan.answers if answer.place == place)
    predicates = node.keep - {EVERYTHING}
    return NodeDescription(
        id=name_of(place),
        parent=None if parent is None else name_of(planned.parent),
        slices_per_hour=slices_per_hour(node.boundaries),
        dimensions=[
            DimensionDescription(
                expression=printer.text(dimension.expression), kind=str(dimension.kind), cells=dimension.size
            )
            for dimension in node.dimensions
        ],
        cells=node.cells,
        groups=sorted(printer.text(tree) for tree in node.groups),
        predicates=len(predicates),
        filter=printer.predicate(next(iter(predicates))) if len(predicates) == 1 else None,
        passes=passes,
        partials=sorted(printer.partial(partial) for partial in node.partials),
        states=sorted(
            f"{printer.partial(partial)}: {how}"
            for partial in node.partials
            if (how := strategy(partial, planned, cost)) is not None
        ),
        reads=cost.sample.batch_rows * passes if parent is None else cost.passing_rows(parent, node),
        rows=planned.rows,
        cost_ns=planned.cost_ns + close_ns,
        close_ns=close_ns,
        share=(planned.cost_ns + close_ns) / plan.cost_ns if plan.cost_ns else 0.0,
        shipped=place in plan.shipped,
        queries=list(served),
    )


def describe_query(
    plan: Plan,
    name: str,
    query: Query,
    nodes: Sequence[NodeDescription],
    shares: Mapping[str, float],
    printer: NodePrinter,
    cost: Cost,
) -> QueryDescription:
    answers = list(answers_of(plan, name))
    path = [nodes[place] for place in sorted({place for answer in answers for place in plan.path(answer.place)})]
    return QueryDescription(
        name=name,
        text=format_query(query),
        where=printer.predicate(plan.demands[name].predicate),
        routes=[describe_route(plan, name, answer, printer, cost) for answer in answers],
        path=[StepDescription(node=node["id"], other_queries=len(node["queries"]) - 1) for node in path],
        alone_ns=plan.alone_ns[name],
        share_ns=shares[name],
        rewrite=rewrite(query, name, {node["id"]: node["slices_per_hour"] for node in path}),
    )


def answers_of(plan: Plan, name: str) -> Iterator[Answer]:
    return (answer for answer in plan.answers if any(ask.query == name for ask in answer.leaf.asks))


def describe_route(plan: Plan, name: str, answer: Answer, printer: NodePrinter, cost: Cost) -> RouteDescription:
    shipped = plan.nodes[answer.place]
    partials = {partial for ask in answer.leaf.asks if ask.query == name for partial in ask.partials}
    return RouteDescription(
        node=name_of(answer.place),
        partials=sorted(printer.partial(partial) for partial in partials),
        rows=cost.passing_rows(shipped.node, answer.leaf.node),
        of_rows=shipped.rows,
    )


# How states come about


def strategy(partial: Partial, planned: PlannedNode, cost: Cost) -> str | None:
    """Describe how states that grow with what they see come about in a node, by the sample [UDAF 8].

    The text says how rows are folded, where there is a choice, and whether the states are exact. It is None for states
    that do not grow.
    """
    if partial.traits.items is None:
        return None
    items = cost.items(partial, planned.node)
    is_exact = partial.traits.equality != "bounded" or items < (partial.size or partial.traits.default_size)
    parts = [] if partial.traits.fold_choice is None or planned.parent != STREAM else [folding(partial, planned, cost)]
    parts += ["exact" if is_exact else "sketch", f"about {max(1, round(items)):,} items"]
    return ", ".join(parts)


def folding(partial: Partial, planned: PlannedNode, cost: Cost) -> str:
    """In skewed data the same items come again and again: equal rows are put together in a small table, and few are
    left to count (compress). In uniform data hardly two meet there: rows are counted as they come (buffer).
    """
    how = "compress" if partial in planned.compressed else "buffer"
    return f"{how} as {percent(cost.repeats(partial, planned.node))} of the rows repeat"


# Which part of the cost each query bears


def serves(plan: Plan) -> Mapping[int, tuple[str, ...]]:
    """Return for each place the queries that are answered from the node there or from one below it."""
    served: dict[int, set[str]] = {place: set() for place in range(len(plan.nodes))}
    for answer in plan.answers:
        for place in plan.path(answer.place):
            served[place].update(ask.query for ask in answer.leaf.asks)
    order = {name: position for position, name in enumerate(plan.demands)}
    return {place: tuple(sorted(names, key=order.__getitem__)) for place, names in served.items()}


def fair_shares(plan: Plan) -> Mapping[str, float]:
    """Divide the cost of the plan among its queries; the shares add up to it.

    The cost of a node is divided equally among the queries that it serves, that of closing by how often each query
    combines a row, and that of coding rows in proportion to what each would cost alone.
    """
    whole = sum(plan.alone_ns.values())
    shares = {name: plan.coding_ns * alone / whole if whole else 0.0 for name, alone in plan.alone_ns.items()}
    for place, names in serves(plan).items():
        for name in names:
            shares[name] += plan.nodes[place].cost_ns / len(names)
    for answer in plan.answers:
        weights = [closing_weight(ask) for ask in answer.leaf.asks]
        for ask, weight in zip(answer.leaf.asks, weights, strict=True):
            shares[ask.query] += answer.cost_ns * weight / sum(weights)
    return shares


def closing_weight(ask: Ask) -> float:
    return overlap(ask.window) * (1 + sum(partial.traits.combine for partial in ask.partials))
