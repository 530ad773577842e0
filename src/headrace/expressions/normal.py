"""The normal form: one tree for all the ways to write the same thing.

Operands of commutative operators are sorted, comparisons turned so that the constant stands on the right, NOT pushed
down to the atoms, AND and OR flattened and freed of duplicates, IN lists sorted. No cleverer rewrites: what a person
wrote stays recognisable, and nothing here depends on data.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from decimal import Decimal

from headrace.model.expressions import (
    Aggregate,
    Call,
    ColumnRef,
    Expression,
    Literal,
    children,
    transform,
    with_children,
)
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE

MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
OPPOSITE |= {"is_null": "is_not_null", "is_not_null": "is_null", "and": "or", "or": "and"}
MAX_EXACT_DOUBLE = 2**53


def normalize(tree: Expression, groups: Set[Expression] = frozenset()) -> Expression:
    """The normal form of `tree`. Inside results `groups` stay whole: NOT (a AND b) keeps a group a AND b in sight."""
    if groups and (plain := normalize(tree)) in groups:
        return plain
    kept = frozenset[Expression]() if isinstance(tree, Aggregate) else groups
    changed = tuple([normalize(child, kept) for child in children(tree)])
    return normalize_node(with_children(tree, changed), groups)


def rename_relations(tree: Expression, names: Mapping[str, str]) -> Expression:
    """Return the tree with other names of the relations that its columns belong to."""

    def rename(node: Expression) -> Expression:
        return replace(node, relation=names[node.relation]) if isinstance(node, ColumnRef) else node

    return transform(tree, rename)


def normalize_node(node: Expression, groups: Set[Expression]) -> Expression:
    """The normal form of a node whose children are in normal form."""
    if not isinstance(node, Call):
        return node
    if node.function in MIRRORED:
        return orient(node)
    if node.function in ("+", "*"):
        return sorted_operands(node)
    if node.function in ("and", "or"):
        return connective(node.function, node.arguments, groups)
    if node.function == "not":
        return negate(node.arguments[0], groups)
    if node.function == "in":
        return sorted_membership(node)
    return node


def sort_key(tree: Expression) -> str:
    """Different trees have different keys. Aggregates come before calls, columns and constants, in this order."""
    if isinstance(tree, Literal):
        return f"4{tree.value!r} {tree.type}"
    if isinstance(tree, ColumnRef):
        return f"3{tree.relation!r}.{tree.name!r} {tree.type}"
    inner = ",".join([sort_key(child) for child in children(tree)])
    if isinstance(tree, Aggregate):
        return f"1({inner}){tree.function!r} {tree.distinct} {len(tree.arguments)}"
    return f"2({inner}){tree.function!r} {tree.type}"


def sorted_operands(node: Call) -> Call:
    """An operand of the same operator comes first: so a + b + c stays a chain and prints without parentheses."""
    first, second = node.arguments
    chained = [isinstance(side, Call) and side.function == node.function for side in node.arguments]
    swap = chained[1] if chained[0] != chained[1] else sort_key(second) < sort_key(first)
    return replace(node, arguments=(second, first)) if swap else node


def orient(node: Call) -> Call:
    left, right = (as_double(side, other) for side, other in (node.arguments, node.arguments[::-1]))
    mirrored = MIRRORED[node.function]
    # Between equal operands, a < a and a > a, the operator decides.
    if (sort_key(left), node.function) <= (sort_key(right), mirrored):
        return replace(node, arguments=(left, right))
    return Call(mirrored, (right, left), node.type)


def as_double(side: Expression, other: Expression) -> Expression:
    """`price > 5` and `price > 5.0` are one comparison where price is a DOUBLE."""
    if other.type == DOUBLE and side.type == BIGINT and isinstance(side, Literal) and isinstance(side.value, int):
        return Literal(float(side.value), DOUBLE) if abs(side.value) <= MAX_EXACT_DOUBLE else side
    return side


def connective(function: str, arguments: tuple[Expression, ...], groups: Set[Expression]) -> Expression:
    flat: dict[Expression, None] = {}
    for argument in arguments:
        nested = isinstance(argument, Call) and argument.function == function and argument not in groups
        flat.update(dict.fromkeys(children(argument) if nested else (argument,)))
    if len(flat) == 1:
        return next(iter(flat))
    return Call(function, tuple(sorted(flat, key=sort_key)), BOOLEAN)


def negate(tree: Expression, groups: Set[Expression]) -> Expression:
    """NOT of a tree in normal form, in normal form. Right in three-valued logic: NOT of NULL is NULL on both sides."""
    if isinstance(tree, Literal) and isinstance(tree.value, bool):
        return Literal(not tree.value, BOOLEAN)
    if not isinstance(tree, Call) or tree in groups:
        return Call("not", (tree,), BOOLEAN)
    if tree.function in ("and", "or"):
        opposites = tuple([negate(argument, groups) for argument in tree.arguments])
        return connective(OPPOSITE[tree.function], opposites, groups)
    if tree.function in OPPOSITE:
        opposite = replace(tree, function=OPPOSITE[tree.function])
        return orient(opposite) if opposite.function in MIRRORED else opposite
    if tree.function == "not":
        return tree.arguments[0]
    return Call("not", (tree,), BOOLEAN)


def sorted_membership(node: Call) -> Expression:
    subject, *candidates = node.arguments
    values = sorted({as_double(candidate, subject) for candidate in candidates}, key=membership_key)
    if len(values) == 1:
        return orient(Call("=", (subject, values[0]), BOOLEAN))
    return replace(node, arguments=(subject, *values))


def membership_key(candidate: Expression) -> tuple[bool, bool, Decimal, str]:
    """Numbers by value, then texts, NULL last."""
    value = candidate.value if isinstance(candidate, Literal) else None
    number = Decimal(value) if isinstance(value, int | float | Decimal) else None
    return value is None, number is None, number or Decimal(0), sort_key(candidate)
