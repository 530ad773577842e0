"""Typed expression trees. A tree is a value: equal trees mean the same and hash the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from headrace.model.stable_names import stored
from headrace.model.types import TIMESTAMP, Constant, DataType


@stored("Literal", "value", "type")
@dataclass(frozen=True, slots=True)
class Literal:
    value: Constant
    type: DataType

    def __post_init__(self) -> None:
        if self.value == 0 and isinstance(self.value, float | Decimal):
            # -0.0 equals 0.0, so both must print alike
            object.__setattr__(self, "value", 0.0 if isinstance(self.value, float) else self.value.copy_abs())


@stored("ColumnRef", "relation", "name", "type")
@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of the stream or of a joined table; `relation` is the name it has in this query."""

    relation: str
    name: str
    type: DataType


@stored("Call", "function", "arguments", "type")
@dataclass(frozen=True, slots=True)
class Call:
    """An operator or a function. `function` is a key of the function table, or the name of a user function."""

    function: str
    arguments: tuple[Expression, ...]
    type: DataType


@stored("Aggregate", "function", "arguments", "type", "distinct", "filter", "parameters")
@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function over the rows of a window and group; count(*) has no arguments.

    Each row gives its `arguments`; `parameters`, such as the fraction of a percentile, are constants behind them.
    """

    function: str
    arguments: tuple[Expression, ...]
    type: DataType
    distinct: bool = False
    filter: Expression | None = None
    parameters: tuple[Literal, ...] = ()


Expression = Literal | ColumnRef | Call | Aggregate

WINDOW_START = Call("window_start", (), TIMESTAMP)
WINDOW_END = Call("window_end", (), TIMESTAMP)


def is_window_bound(tree: Expression) -> bool:
    return isinstance(tree, Call) and tree.function in (WINDOW_START.function, WINDOW_END.function)


def children(tree: Expression) -> tuple[Expression, ...]:
    if isinstance(tree, Call):
        return tree.arguments
    if isinstance(tree, Aggregate):
        return tree.arguments if tree.filter is None else (*tree.arguments, tree.filter)
    return ()


def with_children(tree: Expression, changed: tuple[Expression, ...]) -> Expression:
    """Return the tree with others in place of its children, in the order of `children`."""
    if isinstance(tree, Call):
        return tree if changed == () else Call(tree.function, changed, tree.type)
    if isinstance(tree, Aggregate):
        count = len(tree.arguments)
        return replace(tree, arguments=changed[:count], filter=changed[count] if tree.filter is not None else None)
    return tree


def walk(tree: Expression) -> Iterator[Expression]:
    """Yield the tree and everything below it, parents first."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(children(node))


def height(tree: Expression) -> int:
    """Return how many calls and aggregates stand inside one another."""
    highest, pending = 0, [(tree, 0)]
    while pending:
        node, above = pending.pop()
        level = above + isinstance(node, Call | Aggregate)
        highest = max(highest, level)
        pending += [(child, level) for child in children(node)]
    return highest


def transform(tree: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return the tree with `change` applied to every node, children first."""
    changed = tuple([transform(child, change) for child in children(tree)])
    return change(with_children(tree, changed))


def aggregates_in(tree: Expression) -> Iterator[Aggregate]:
    return (node for node in walk(tree) if isinstance(node, Aggregate))


def columns_in(tree: Expression) -> Iterator[ColumnRef]:
    return (node for node in walk(tree) if isinstance(node, ColumnRef))
