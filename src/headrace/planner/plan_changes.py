"""A plan that changes while the stream runs: one query joins or leaves, and only what it touches is planned again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

from headrace.planner.cost import Cost
from headrace.planner.demand import Ask, Demand, Leaf, make_leaf
from headrace.planner.draft import Draft, apart, cost_alone, draft, price_plan
from headrace.planner.lattice import Node, union
from headrace.planner.plan import STREAM, Plan

MAX_KIN = 6
"""How many nodes are tried as the one to widen for a new query."""


def add_query(plan: Plan, name: str, demand: Demand, cost: Cost) -> Plan:
    """The plan with one query more: answered by a node there is, by a node of its own, or by a node made wider."""
    if name in plan.demands:
        raise ValueError(f"there is a query '{name}' in the plan already")
    demands = {**plan.demands, name: demand}
    known = {**plan.alone_ns, name: cost_alone(name, demand, cost)}
    outline = draft(plan)
    leaf = make_leaf(demand.predicate, demand.groups, [Ask(name, demand.window, demand.partials)])
    ways = [*join_leaf(outline, leaf), *attach_leaf(outline, leaf), *widen_nodes(outline, leaf, cost)]
    return min((price_plan(way, demands, cost, known) for way in ways), key=lambda candidate: candidate.cost_ns)


def join_leaf(outline: Draft, leaf: Leaf) -> Iterator[Draft]:
    """As one more query of a leaf of the same predicate and group-by, where its shipped node has what it takes."""
    for number, (other, place) in enumerate(outline.answers):
        if (other.node.keep, other.node.groups) == (leaf.node.keep, leaf.node.groups):
            both = make_leaf(leaf.predicate, leaf.node.groups, (*other.asks, *leaf.asks))
            if outline.nodes[place].covers(both.node):
                answers = (*outline.answers[:number], (both, place), *outline.answers[number + 1 :])
                yield replace(outline, answers=answers)


def attach_leaf(outline: Draft, leaf: Leaf) -> Iterator[Draft]:
    """From the stream, or from a node that covers it."""
    yield with_leaf(outline, leaf, STREAM)
    for place, node in enumerate(outline.nodes):
        if node.covers(leaf.node):
            yield from attach_to_node(outline, leaf, place)


def attach_to_node(outline: Draft, leaf: Leaf, place: int) -> Iterator[Draft]:
    """From one node: fanned out in the task, or at close."""
    yield with_leaf(outline, leaf, place)
    if outline.nodes[place].groups == leaf.node.groups:
        yield replace(outline, answers=(*outline.answers, (leaf, place)))


def with_leaf(outline: Draft, leaf: Leaf, parent: int) -> Draft:
    if leaf.node in outline.nodes:
        return replace(outline, answers=(*outline.answers, (leaf, outline.nodes.index(leaf.node))))
    nodes, parents = (*outline.nodes, leaf.node), (*outline.parents, parent)
    return Draft(nodes, parents, (*outline.answers, (leaf, len(outline.nodes))))


def widen_nodes(outline: Draft, leaf: Leaf, cost: Cost) -> Iterator[Draft]:
    """From a node that is made to cover it, with all nodes above: it stays where it was, so the tree stays as it is."""
    for place in kin(outline, leaf, cost):
        nodes = list(outline.nodes)
        for above in path(outline, place):
            nodes[above] = union([nodes[above], leaf.node])
        wider = replace(outline, nodes=tuple(nodes))
        if is_sound(wider):
            yield from attach_to_node(wider, leaf, place)


def kin(outline: Draft, leaf: Leaf, cost: Cost) -> Sequence[int]:
    """Nodes of the leaf's group-by or a finer one that look at what its predicate looks at, smallest first."""
    wanted = {dimension.expression for dimension in leaf.predicate.dimensions}

    def is_kin(place: int) -> bool:
        node = outline.nodes[place]
        known = {dimension.expression for dimension in node.dimensions} | node.groups
        return wanted <= known and leaf.node.groups <= node.groups

    places = [place for place in range(len(outline.nodes)) if is_kin(place)]
    return sorted(places, key=lambda place: cost.sample.rows(outline.nodes[place]))[:MAX_KIN]


def path(outline: Draft, place: int) -> Iterator[int]:
    """From a node up to the stream."""
    while place != STREAM:
        yield place
        place = outline.parents[place]


def is_sound(outline: Draft) -> bool:
    """No node is there twice, and a shipped node has the group-by of the leaves that it answers."""
    answered = all(outline.nodes[place].groups == leaf.node.groups for leaf, place in outline.answers)
    return answered and len(set(outline.nodes)) == len(outline.nodes)


def drop_query(plan: Plan, name: str, cost: Cost) -> Plan:
    """The plan without one query: nodes that served only it go, those above it lose what only it needed."""
    if name not in plan.demands:
        raise ValueError(f"there is no query '{name}' in the plan")
    demands = {other: demand for other, demand in plan.demands.items() if other != name}
    known = {other: plan.alone_ns[other] for other in demands}
    outline = draft(plan)
    touched = {above for leaf, place in outline.answers if asks_of(leaf, name) for above in path(outline, place)}
    answers = tuple((rest, place) for leaf, place in outline.answers for rest in without(leaf, name))
    left = replace(outline, answers=answers)
    ways = [prune(left, frozenset()), prune(narrow_nodes(left, touched), touched), apart(demands)]
    ways = [way for way in ways if is_sound(way)]
    return min((price_plan(way, demands, cost, known) for way in ways), key=lambda candidate: candidate.cost_ns)


def asks_of(leaf: Leaf, name: str) -> bool:
    return any(ask.query == name for ask in leaf.asks)


def without(leaf: Leaf, name: str) -> Iterator[Leaf]:
    """The leaf without a query, or nothing if it served no other."""
    asks = [ask for ask in leaf.asks if ask.query != name]
    if len(asks) == len(leaf.asks):
        yield leaf
    elif asks:
        yield make_leaf(leaf.predicate, leaf.node.groups, asks)


def narrow_nodes(outline: Draft, touched: Set[int]) -> Draft:
    """Each touched node as the union of what is computed from it, children first."""
    nodes = list(outline.nodes)
    needed: dict[int, list[Node]] = {}
    for leaf, place in outline.answers:
        needed.setdefault(place, []).append(leaf.node)
    for place in reversed(range(len(nodes))):
        users = needed.get(place, [])
        if place in touched and users:
            nodes[place] = union(users)
        if users:
            needed.setdefault(outline.parents[place], []).append(nodes[place])
    return replace(outline, nodes=tuple(nodes))


def prune(outline: Draft, touched: Set[int]) -> Draft:
    """Without nodes that serve nothing, and without touched nodes that only hand on to one other."""
    used = {place for _, answered in outline.answers for place in path(outline, answered)}
    children: dict[int, int] = {}
    for place in used:
        children[outline.parents[place]] = children.get(outline.parents[place], 0) + 1
    shipped = {place for _, place in outline.answers}
    kept = [place for place in sorted(used) if place in shipped or place not in touched or children.get(place, 0) > 1]
    new_place = {place: new for new, place in enumerate(kept)} | {STREAM: STREAM}

    def parent(place: int) -> int:
        above = outline.parents[place]
        while above not in new_place:
            above = outline.parents[above]
        return new_place[above]

    return Draft(
        tuple(outline.nodes[place] for place in kept),
        tuple(parent(place) for place in kept),
        tuple((leaf, new_place[place]) for leaf, place in outline.answers),
    )
