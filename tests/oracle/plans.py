"""Random plans of queries: trees that the planner makes, and any other tree of the lattice; rows folded in any way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from headrace.expressions.static_tables import Data
from headrace.model.query import Query
from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import Demand, Leaf, demand, leaves_of, split_by_partial, split_by_window
from headrace.planner.draft import Draft, apart, price_plan
from headrace.planner.lattice import union
from headrace.planner.plan import STREAM, Plan
from headrace.planner.plan_changes import add_query
from headrace.planner.search import Graph
from headrace.planner.statistics import draw as draw_rows


@st.composite
def plans(draw: st.DrawFn, data: Data, asked: Mapping[str, Query]) -> Plan:
    """A plan of some tree, with some partials compressed, whether it pays or not."""
    plan = draw(trees(data, asked))
    nodes = []
    for each in plan.nodes:
        open_to_both = [
            partial for partial in each.node.partials if partial.traits.fold_choice and each.parent == STREAM
        ]
        compressed = draw(st.frozensets(st.sampled_from(open_to_both))) if open_to_both else frozenset()
        nodes.append(replace(each, compressed=compressed))
    return replace(plan, nodes=tuple(nodes))


@st.composite
def trees(draw: st.DrawFn, data: Data, asked: Mapping[str, Query]) -> Plan:
    """Plans for dear and cheap nodes, dear and cheap shipping; each query apart; one after the other; any tree."""
    costs = st.sampled_from([0.0, 1.0, 1_000.0])
    constants = Constants(node_ns=draw(costs), leaf_ns=draw(costs), slice_ns=draw(costs), ship_row_ns=draw(costs))
    cost = Cost(draw_rows(data, asked.values()), constants)
    demands = {name: demand(query) for name, query in asked.items()}
    how = draw(st.sampled_from(["made", "apart", "grown", "any tree", "any tree"]))
    if how == "any tree":
        return price_plan(draw(drafts(demands, cost)), demands, cost)
    if how == "apart":
        return price_plan(apart(demands), demands, cost)
    if how == "made":
        return make_plan(demands, cost)
    first, *others = demands
    plan = make_plan({first: demands[first]}, cost)
    for name in others:
        plan = add_query(plan, name, demands[name], cost)
    return plan


@st.composite
def drafts(draw: st.DrawFn, demands: Mapping[str, Demand], cost: Cost) -> Draft:
    """Random unions of leaves; each node from the stream or any other that covers it; leaves from any that can."""
    leaves = draw(st.sampled_from(ways_to_split(leaves_of(demands))))
    known = [leaf.node for leaf in leaves]
    for _ in range(draw(st.integers(0, 4))):
        known.append(union(draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))))
    nodes = list(dict.fromkeys(known))
    graph = Graph(nodes, cost.arc)
    places = [graph.place(node) for node in nodes]
    parent = {place: pick(draw, [STREAM, *(each for each in places if graph.covers(each, place))]) for place in places}
    answers = []
    for leaf in leaves:
        own = graph.place(leaf.node)
        others = [each for each in places if nodes[each].groups == leaf.node.groups and graph.covers(each, own)]
        answers.append((leaf, pick(draw, [own, *others])))
    order: list[int] = []
    for _, shipped in answers:
        add_path(shipped, parent, order)
    new = {STREAM: STREAM} | {place: number for number, place in enumerate(order)}
    return Draft(
        tuple(nodes[place] for place in order),
        tuple(new[parent[place]] for place in order),
        tuple((leaf, new[place]) for leaf, place in answers),
    )


def ways_to_split(leaves: tuple[Leaf, ...]) -> list[Sequence[Leaf]]:
    by_window = [part for leaf in leaves for part in split_by_window(leaf)]
    by_partial = [part for leaf in leaves for part in split_by_partial(leaf)]
    return [leaves, by_window, by_partial]


def pick(draw: st.DrawFn, choices: Sequence[Any]) -> Any:
    return draw(st.sampled_from(choices))


def add_path(place: int, parent: Mapping[int, int], order: list[int]) -> None:
    """The node and those above it, parents first."""
    if place != STREAM and place not in order:
        add_path(parent[place], parent, order)
        order.append(place)
