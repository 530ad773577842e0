"""From queries to leaves and shapes: what is asked for, before anything is shared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from headrace.aggregates.partials import Partial, partials_of
from headrace.expressions.normal import normalize, rename_relations
from headrace.expressions.static_tables import join_identity, match_condition
from headrace.model.cached_hash import HashedOnce
from headrace.model.caches import cached
from headrace.model.expressions import Aggregate, Call, Expression
from headrace.model.query import Query
from headrace.model.stable_names import stored
from headrace.model.types import BOOLEAN
from headrace.model.windows import AnyWindow
from headrace.planner.lattice import MAX_CELLS, Node, union
from headrace.predicates import Predicate
from headrace.windows import Boundaries, compose, paired_boundaries

EXPENSIVE_COMBINE = 50
"""A partial that costs this many additions to combine may be worth a way of its own through the tree."""


@stored("Demand", "window", "predicate", "groups", "partials")
@dataclass(frozen=True)
class Demand(HashedOnce):
    """One query as the planner sees it: joined columns are named by table and key, a join is part of the predicate."""

    window: AnyWindow
    predicate: Predicate
    groups: frozenset[Expression]
    partials: frozenset[Partial]

    __hash__ = HashedOnce.__hash__


@cached
def demand(query: Query) -> Demand:
    renamed = plan_terms(query)
    conditions = [match_condition(join) for join in query.joins if not join.outer]
    conditions += [renamed(query.where)] if query.where is not None else []
    where = normalize(Call("and", tuple(conditions), BOOLEAN)) if conditions else None
    terms = terms_of(query)
    partials = frozenset(chain.from_iterable(terms.partials.values())) or frozenset((Partial("count", ()),))
    return Demand(query.window, Predicate(where), frozenset(terms.groups), partials)


def plan_terms(query: Query) -> Callable[[Expression], Expression]:
    """What turns a query's expressions into those of plans: joined relations are named by table and key."""
    names = {query.stream: query.stream} | {join.relation: join_identity(join) for join in query.joins}
    return lambda tree: normalize(rename_relations(tree, names))


@dataclass(frozen=True, slots=True)
class Terms:
    """A query's group-bys, and the partials of each of its aggregates, in the terms of plans."""

    groups: tuple[Expression, ...]
    partials: Mapping[Aggregate, tuple[Partial, ...]]


@cached
def terms_of(query: Query) -> Terms:
    renamed = plan_terms(query)
    return Terms(
        tuple(renamed(tree) for tree in query.group_by),
        {
            aggregate: tuple(in_plan_terms(partial, renamed) for partial in partials_of(aggregate))
            for aggregate in query.aggregates()
        },
    )


def in_plan_terms(partial: Partial, renamed: Callable[[Expression], Expression]) -> Partial:
    arguments = tuple(renamed(argument) for argument in partial.arguments)
    return replace(partial, arguments=arguments, filter=None if partial.filter is None else renamed(partial.filter))


@stored("Ask", "query", "window", "partials")
@dataclass(frozen=True, slots=True)
class Ask:
    """What one query wants of a leaf: all its partials, or some of them if the others come another way."""

    query: str
    window: AnyWindow
    partials: frozenset[Partial]


@stored("Leaf", "node", "asks")
@dataclass(frozen=True)
class Leaf:
    """Queries of one predicate and group-by; they differ in window and aggregates only."""

    node: Node
    asks: tuple[Ask, ...]

    @property
    def predicate(self) -> Predicate:
        (predicate,) = self.node.keep
        return predicate


@dataclass(frozen=True)
class Shape:
    """Leaves over the same dimensions, group-bys and partials: searched for as one, their cuts and windows united."""

    node: Node
    leaves: tuple[Leaf, ...]


def make_leaf(predicate: Predicate, groups: frozenset[Expression], asks: Iterable[Ask]) -> Leaf:
    members = tuple(asks)
    node = Node(
        boundaries=compose(paired_boundaries(ask.window) for ask in members),
        dimensions=(),
        keep=frozenset((predicate,)),
        groups=groups,
        partials=frozenset(partial for ask in members for partial in ask.partials),
    )
    return Leaf(node, members)


def leaves_of(demands: Mapping[str, Demand]) -> tuple[Leaf, ...]:
    """One leaf per predicate and group-by, in order of first appearance."""
    members: dict[tuple[Predicate, frozenset[Expression]], list[Ask]] = {}
    for name, demand in demands.items():
        ask = Ask(name, demand.window, demand.partials)
        members.setdefault((demand.predicate, demand.groups), []).append(ask)
    return tuple(make_leaf(predicate, groups, asks) for (predicate, groups), asks in members.items())


def shapes_of(leaves: Iterable[Leaf]) -> tuple[Shape, ...]:
    members: dict[object, list[Leaf]] = {}
    for leaf in leaves:
        expressions = frozenset(dimension.expression for dimension in leaf.predicate.dimensions)
        members.setdefault((expressions, leaf.node.groups, leaf.node.partials), []).append(leaf)
    return tuple(shape for group in members.values() for shape in shapes_within(group))


def shapes_within(leaves: Sequence[Leaf]) -> Iterator[Shape]:
    """One shape, or several if one had more cells than can be numbered."""
    node = union([leaf.node for leaf in leaves])
    if node.cells <= MAX_CELLS:
        yield Shape(node, tuple(leaves))
    else:
        middle = len(leaves) // 2
        yield from shapes_within(leaves[:middle])
        yield from shapes_within(leaves[middle:])


def split_by_window(leaf: Leaf) -> tuple[Leaf, ...]:
    """One leaf per set of boundaries: more to fan out, fewer slices in each."""
    members: dict[Boundaries, list[Ask]] = {}
    for ask in leaf.asks:
        members.setdefault(paired_boundaries(ask.window), []).append(ask)
    return tuple(make_leaf(leaf.predicate, leaf.node.groups, asks) for asks in members.values())


def split_by_partial(leaf: Leaf) -> tuple[Leaf, ...]:
    """Split off the partials that are expensive to combine: a sketch goes its own way."""
    expensive = frozenset(partial for partial in leaf.node.partials if partial.traits.combine >= EXPENSIVE_COMBINE)
    halves = []
    for wanted in (leaf.node.partials - expensive, expensive):
        asks = [replace(ask, partials=ask.partials & wanted) for ask in leaf.asks if ask.partials & wanted]
        halves += [make_leaf(leaf.predicate, leaf.node.groups, asks)] if asks else []
    return tuple(halves)
