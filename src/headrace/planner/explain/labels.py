"""What nodes are made of, as text: expressions as SQL, and figures as a person reads them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from headrace.aggregates.partials import Partial
from headrace.expressions.static_tables import join_identity
from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.query import Join, Query
from headrace.planner.lattice import is_matched
from headrace.predicates import Predicate
from headrace.sql.names import quote
from headrace.sql.printer import ExpressionPrinter

FEW_NAMES = 3
UNITS_NS = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))


class NodePrinter(ExpressionPrinter):
    """Columns of the stream stand bare, those of a joined table behind its name; `matched(t)`: a partner was found."""

    def __init__(self, stream: str, queries: Iterable[Query]) -> None:
        super().__init__(qualified=True)
        self.stream = stream
        self.relations = relation_names(queries)

    def text(self, tree: Expression) -> str:
        if isinstance(tree, ColumnRef):
            bare = quote(tree.name)
            return bare if tree.relation == self.stream else f"{self.relations[tree.relation]}.{bare}"
        return super().text(tree)

    def call(self, tree: Call) -> str:
        argument = tree.arguments[0] if is_matched(tree) else None
        if isinstance(argument, Literal):
            return f"matched({self.relations[str(argument.value)]})"
        return super().call(tree)

    def partial(self, partial: Partial) -> str:
        condition = "" if partial.filter is None else f" FILTER (WHERE {self.text(partial.filter)})"
        return f"{partial.kind}({self.join_list(partial.arguments) or '*'}){condition}"

    def predicate(self, predicate: Predicate) -> str | None:
        return None if predicate.tree is None else self.text(predicate.tree)


def relation_names(queries: Iterable[Query]) -> Mapping[str, str]:
    """The table's name for each joined relation, with its keys where a table is joined in several ways."""
    joins = {join_identity(join): join for query in queries for join in query.joins}
    ways = Counter(join.table for join in joins.values())

    def name(join: Join) -> str:
        keys = ", ".join(ExpressionPrinter(qualified=False).text(key.expression) for key in join.keys)
        return quote(join.table) + (f"({keys})" if ways[join.table] > 1 else "")

    return {identity: name(join) for identity, join in joins.items()}


def fold_names(names: Sequence[str]) -> str:
    """A few names, or the first and the last of many."""
    if len(names) <= FEW_NAMES:
        return ", ".join(names)
    return f"{names[0]} ... {names[-1]} ({len(names)} queries)"


def figure(value: float) -> str:
    """Three significant digits: 12,300 or 1.5."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = 2 - math.floor(math.log10(abs(value)))
    rounded = round(value, digits)
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"


def duration(nanoseconds: float) -> str:
    unit, size = next((pair for pair in UNITS_NS if abs(nanoseconds) >= pair[1]), UNITS_NS[-1])
    return f"{figure(nanoseconds / size)} {unit}"


def percent(share: float) -> str:
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def times_cheaper(ratio: float) -> str:
    if abs(ratio - 1) < 0.005:
        return "no difference"
    return f"{figure(ratio)} times cheaper" if ratio > 1 else f"{figure(1 / ratio)} times more expensive"


def count_noun(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
