"""From queries to leaves and shapes: what is asked for, before anything is shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.aggregates.partials import Partial, partials_of
from headrace.expressions.normal import normalize
from headrace.model.expressions import Call, ColumnRef, Expression, Literal, transform
from headrace.model.query import Join, Query
from headrace.model.types import BOOLEAN, STRING
from headrace.model.windows import AnyWindow
from headrace.planner.nodes import Node, union
from headrace.predicates import Predicate
from headrace.windows import compose, paired


@dataclass(frozen=True)
class Demand:
    """One query as the planner sees it: joined columns are named by table and key, a join is part of the predicate."""

    window: AnyWindow
    predicate: Predicate
    groups: frozenset[Expression]
    partials: frozenset[Partial]


def demand(query: Query) -> Demand:
    names = {query.stream: query.stream} | {join.relation: join_identity(join) for join in query.joins}

    def renamed(tree: Expression) -> Expression:
        def change(node: Expression) -> Expression:
            return replace(node, relation=names[node.relation]) if isinstance(node, ColumnRef) else node

        return normalize(transform(tree, change))

    conditions = [matched(join) for join in query.joins if not join.outer]
    conditions += [renamed(query.where)] if query.where is not None else []
    where = normalize(Call("and", tuple(conditions), BOOLEAN)) if conditions else None
    partials = {
        Partial(
            partial.kind,
            tuple(renamed(argument) for argument in partial.arguments),
            renamed(partial.filter) if partial.filter is not None else None,
        )
        for aggregate in query.aggregates()
        for partial in partials_of(aggregate)
    }
    groups = frozenset(renamed(tree) for tree in query.group_by)
    return Demand(query.window, Predicate(where), groups, frozenset(partials or {Partial("count", ())}))


def join_identity(join: Join) -> str:
    """The same table joined by the same keys is one relation, whatever the queries call it."""
    return f"{join.table}[{', '.join(f'{key.column} = {key.expression!r}' for key in join.keys)}]"


def matched(join: Join) -> Expression:
    """The condition that a row has a partner in the joined table."""
    return Call("matched", (Literal(join_identity(join), STRING),), BOOLEAN)


@dataclass(frozen=True)
class Leaf:
    """All queries of one predicate and group-by; they differ in window and aggregates only."""

    node: Node
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """Leaves over the same dimensions, group-bys and partials: searched for as one, their cuts and windows united."""

    node: Node
    leaves: tuple[Leaf, ...]


def leaves_of(demands: Mapping[str, Demand]) -> tuple[Leaf, ...]:
    """One leaf per predicate and group-by, in order of first appearance."""
    members: dict[tuple[Predicate, frozenset[Expression]], list[str]] = {}
    for name, asked in demands.items():
        members.setdefault((asked.predicate, asked.groups), []).append(name)
    return tuple(make_leaf(demands, names) for names in members.values())


def make_leaf(demands: Mapping[str, Demand], names: list[str]) -> Leaf:
    first = demands[names[0]]
    node = Node(
        boundaries=compose(paired(demands[name].window) for name in names),
        dimensions=(),
        keep=frozenset((first.predicate,)),
        groups=first.groups,
        partials=frozenset(partial for name in names for partial in demands[name].partials),
    )
    return Leaf(node, tuple(names))


def shapes_of(leaves: tuple[Leaf, ...]) -> tuple[Shape, ...]:
    members: dict[object, list[Leaf]] = {}
    for leaf in leaves:
        (predicate,) = leaf.node.keep
        expressions = frozenset(each.expression for each in predicate.dimensions)
        members.setdefault((expressions, leaf.node.groups, leaf.node.partials), []).append(leaf)
    return tuple(Shape(union([leaf.node for leaf in group]), tuple(group)) for group in members.values())
