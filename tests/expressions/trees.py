"""Hypothesis strategies for typed expression trees as a person could write them, and for rows to evaluate them on.

Trees are raw: nothing is in normal form yet. Constants are as extreme as their types allow.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from headrace.expressions.functions import CASTS, FUNCTIONS
from headrace.expressions.normal import MIRRORED, OPPOSITE
from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.time import MAX_TIMESTAMP_US, MIN_TIMESTAMP_US
from headrace.model.types import (
    ADDRESS,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    MAX_BIGINT,
    MIN_BIGINT,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
    Value,
    decimal,
)

STREAM = "Trades"
AMOUNT, FEE = decimal(12, 2), decimal(38, 4)
COLUMNS = {
    "ts": TIMESTAMP,
    "symbol": STRING,
    "price": DOUBLE,
    "vol": BIGINT,
    "amount": AMOUNT,
    "ok": BOOLEAN,
    "addr": ADDRESS,
    "seen": TIMESTAMP,
    "fee": FEE,
}
USER_FUNCTIONS = {"midcap": BOOLEAN, "Score": DOUBLE, "port_of": BIGINT}
KINDS = ("BOOLEAN", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "TIMESTAMP", "ADDRESS")
NUMERIC = ("BIGINT", "DOUBLE", "DECIMAL")
NOTHING = Literal(None, NULL)

Draw = Callable[[st.SearchStrategy[Any]], Any]

bigints = st.integers(MIN_BIGINT, MAX_BIGINT) | st.integers(-3, 3) | st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1])
doubles = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1e308, 5e-324, -1e-5, 1e22, 0.1, 2.0**53])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.text("'\"`\\%_\n\0 ab/*-", max_size=8)
timestamps = st.integers(MIN_TIMESTAMP_US, MAX_TIMESTAMP_US) | st.just(0) | st.integers(-1_000_000, 1_000_000)
mapped_addresses = st.integers(0, 2**32 - 1).map(lambda host: 0xFFFF << 32 | host)
addresses = mapped_addresses | st.integers(0, 2**128 - 1) | st.integers(0, 2**33)


@st.composite
def decimal_literals(draw: Draw) -> Literal:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    digits = draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    return Literal(Decimal(f"{digits}e-{scale}"), decimal(precision, scale))


def literals(kind: str) -> st.SearchStrategy[Literal]:
    values: dict[str, st.SearchStrategy[Literal]] = {
        "BOOLEAN": st.booleans().map(lambda value: Literal(value, BOOLEAN)),
        "BIGINT": bigints.map(lambda value: Literal(value, BIGINT)),
        "DOUBLE": doubles.map(lambda value: Literal(value, DOUBLE)),
        "DECIMAL": decimal_literals(),
        "STRING": texts.map(lambda value: Literal(value, STRING)),
        "TIMESTAMP": timestamps.map(lambda value: Literal(value, TIMESTAMP)),
        "ADDRESS": addresses.map(lambda value: Literal(value, ADDRESS)),
    }
    return values[kind]


def column(name: str) -> ColumnRef:
    return ColumnRef(STREAM, name, COLUMNS[name])


def columns(kind: str) -> st.SearchStrategy[ColumnRef]:
    return st.sampled_from([column(name) for name, data_type in COLUMNS.items() if data_type.name == kind])


def call(function: str, *arguments: Expression) -> Call:
    return Call(function, arguments, FUNCTIONS[function](arguments))


def typed(function: str, *arguments: Expression) -> Call | None:
    """The call, or None if its types don't go together, as with DECIMALs of too many digits."""
    try:
        return call(function, *arguments)
    except ValueError:
        return None


PLAIN: dict[str, dict[str, tuple[str, ...]]] = {
    "BOOLEAN": {
        "not": ("BOOLEAN",),
        "is_true": ("BOOLEAN",),
        "is_false": ("BOOLEAN",),
        "starts_with": ("STRING", "STRING"),
        "ends_with": ("STRING", "STRING"),
        "contains": ("STRING", "STRING"),
        "midcap": ("STRING",),
    },
    "BIGINT": {
        **dict.fromkeys(("+", "-", "*", "div", "%"), ("BIGINT", "BIGINT")),
        **dict.fromkeys(("abs", "sign", "negate"), ("BIGINT",)),
        **dict.fromkeys(("ceil", "floor"), ("DOUBLE",)),
        "length": ("STRING",),
        "instr": ("STRING", "STRING"),
        **dict.fromkeys(("unix_seconds", "unix_millis", "unix_micros"), ("TIMESTAMP",)),
        "port_of": ("ADDRESS",),
    },
    "DOUBLE": {
        **dict.fromkeys(("+", "-", "*", "/", "%", "power"), ("DOUBLE", "BIGINT")),
        **dict.fromkeys(("sqrt", "exp", "ln", "log2", "log10", "abs", "sign", "negate"), ("DOUBLE",)),
        "Score": ("BIGINT", "DOUBLE"),
    },
    "DECIMAL": {
        **dict.fromkeys(("+", "-", "*", "%"), ("DECIMAL", "BIGINT")),
        **dict.fromkeys(("abs", "sign", "round", "ceil", "floor"), ("DECIMAL",)),
    },
    "STRING": {
        **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim"), ("STRING",)),
        "concat": ("STRING", "STRING", "STRING"),
        "substring": ("STRING", "BIGINT", "BIGINT"),
        **dict.fromkeys(("left", "right"), ("STRING", "BIGINT")),
        "replace": ("STRING", "STRING", "STRING"),
    },
}
"""Functions by the kind of their result, with the kinds of their arguments."""


def plain(draw: Draw, kind: str, depth: int) -> Call | None:
    name, kinds = draw(st.sampled_from(sorted(PLAIN[kind].items())))
    arguments = [draw(trees(argument, depth)) for argument in kinds]
    if kinds[0] in NUMERIC and kinds[-1] in NUMERIC and len(kinds) == 2 and kind != "BIGINT" and name != "Score":
        arguments = draw(st.permutations([arguments[0], draw(trees(draw(st.sampled_from(NUMERIC)), depth))]))
    if name == "negate" and isinstance(arguments[0], Literal):
        return None  # a sign before a constant is part of it
    if name in USER_FUNCTIONS:
        return Call(name, tuple(arguments), USER_FUNCTIONS[name])
    return typed(name, *arguments)


def choice(draw: Draw, kind: str, depth: int) -> Call | None:
    """Functions that give back what they are given."""
    name = draw(st.sampled_from(["case", "coalesce", "nullif", "greatest", "least"]))
    if name == "case":
        branches = draw(st.integers(1, 2))
        arguments = [draw(trees(side, depth)) for _ in range(branches) for side in ("BOOLEAN", kind)]
        otherwise = draw(trees(kind, depth) | st.just(NOTHING))
        return typed("case", *arguments, otherwise)
    arguments = [draw(trees(kind, depth)) for _ in range(2 if name == "nullif" else draw(st.integers(2, 3)))]
    return typed(name, *arguments)


def conversion(draw: Draw, kind: str, depth: int) -> Call | None:
    sources = [source for source in KINDS if kind in CASTS[source] and source != kind]
    value = draw(trees(draw(st.sampled_from(sources)), depth)) if sources else NOTHING
    if isinstance(value, Literal):
        return None  # a constant is converted while it is read
    target = draw(st.sampled_from([AMOUNT, FEE])) if kind == "DECIMAL" else DataType(kind)
    return Call("cast", (value,), target)


def comparison(draw: Draw, depth: int) -> Call | None:
    kind = draw(st.sampled_from(KINDS))
    other = draw(st.sampled_from(NUMERIC)) if kind in NUMERIC else kind
    function = draw(st.sampled_from(sorted(MIRRORED)))
    return typed(function, draw(trees(kind, depth)), draw(trees(other, depth) | literals(other)))


def connective(draw: Draw, depth: int) -> Call | None:
    operands = [draw(trees("BOOLEAN", depth)) for _ in range(draw(st.integers(2, 3)))]
    return call(draw(st.sampled_from(["and", "or"])), *operands)


def membership(draw: Draw, depth: int) -> Call | None:
    kind = draw(st.sampled_from(KINDS))
    others = [draw(st.sampled_from(NUMERIC)) if kind in NUMERIC else kind for _ in range(draw(st.integers(1, 4)))]
    candidates = [draw(literals(other) | st.just(NOTHING)) for other in others]
    return typed("in", draw(trees(kind, depth)), *candidates)


def pattern(draw: Draw, depth: int) -> Call | None:
    parts = draw(st.lists(st.sampled_from(["%", "_", "\\%", "\\_", "\\\\", "a", "é", "'", "\n"]), max_size=5))
    return call("like", draw(trees("STRING", depth)), Literal("".join(parts), STRING))


def null_test(draw: Draw, depth: int) -> Call | None:
    tested = draw(trees(draw(st.sampled_from(KINDS)), depth))
    return call(draw(st.sampled_from(["is_null", "is_not_null"])), tested)


def network(draw: Draw, depth: int) -> Call | None:
    text = draw(st.sampled_from(["10.0.0.0/8", "1.2.3.4", "2001:db8::/32", "::/0", "0.0.0.0/0"]))
    return call("ip_in", draw(trees("ADDRESS", depth)), Literal(text, STRING))


def prefix(draw: Draw, depth: int) -> Call | None:
    return call("ip_prefix", draw(trees("ADDRESS", depth)), Literal(draw(st.integers(0, 128)), BIGINT))


def rounding(draw: Draw, depth: int) -> Call | None:
    return call("round", draw(trees("DOUBLE", depth)), Literal(draw(st.integers(0, 18)), BIGINT))


SPECIAL: dict[str, list[Callable[[Draw, int], Call | None]]] = {
    "BOOLEAN": [comparison, comparison, connective, connective, membership, pattern, null_test, network],
    "DOUBLE": [rounding],
    "ADDRESS": [prefix],
}


def own(draw: Draw, kind: str, depth: int) -> Call | None:
    """A function that gives this kind of value."""
    special = SPECIAL.get(kind, [])
    chosen = draw(st.integers(0, len(special) + 1)) if kind in PLAIN else 0
    if chosen < len(special):
        return special[chosen](draw, depth)
    return plain(draw, kind, depth) if kind in PLAIN else None


@st.composite
def trees(draw: Draw, kind: str, depth: int) -> Expression:
    """Expressions of a type, with calls up to `depth` levels deep."""
    leaf: Expression = draw(columns(kind) | literals(kind))
    form = draw(st.sampled_from(["own", "own", "own", "choice", "cast", "leaf"])) if depth > 0 else "leaf"
    tree: Expression | None = None
    if form == "own":
        tree = own(draw, kind, depth - 1)
    elif form == "choice":
        tree = choice(draw, kind, depth - 1)
    elif form == "cast":
        tree = conversion(draw, kind, depth - 1)
    return leaf if tree is None or tree.type.name != kind else tree


# The same thing in other words


@st.composite
def variants(draw: Draw, tree: Expression) -> Expression:
    """A tree that a person could have written instead: other orders, turned comparisons, NOTs in other places."""
    if not isinstance(tree, Call):
        return tree
    varied = Call(tree.function, tuple([draw(variants(child)) for child in tree.arguments]), tree.type)
    function, arguments = varied.function, varied.arguments
    if function in ("+", "*") and draw(st.booleans()):
        varied = Call(function, arguments[::-1], tree.type)
    elif function in MIRRORED and draw(st.booleans()):
        varied = Call(MIRRORED[function], arguments[::-1], tree.type)
    elif function in ("and", "or"):
        varied = Call(function, regrouped(draw, function, arguments), tree.type)
    elif function == "in":
        repeated = [*arguments[1:], *draw(st.lists(st.sampled_from(arguments[1:]), max_size=2))]
        varied = Call(function, (arguments[0], *draw(st.permutations(repeated))), tree.type)
    return draw(negated_twice(varied)) if tree.type == BOOLEAN else varied


def regrouped(draw: Draw, function: str, arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Operands shuffled, one of them doubled, some in parentheses of their own."""
    shuffled = draw(st.permutations([*arguments, *draw(st.lists(st.sampled_from(arguments), max_size=1))]))
    if len(shuffled) > 2 and draw(st.booleans()):
        return (Call(function, tuple(shuffled[:2]), BOOLEAN), *shuffled[2:])
    return tuple(shuffled)


@st.composite
def negated_twice(draw: Draw, tree: Call) -> Expression:
    if not draw(st.booleans()):
        return tree
    if tree.function in ("and", "or"):
        opposites = tuple(Call("not", (argument,), BOOLEAN) for argument in tree.arguments)
        return Call("not", (Call(OPPOSITE[tree.function], opposites, BOOLEAN),), BOOLEAN)
    if tree.function in OPPOSITE:
        return Call("not", (Call(OPPOSITE[tree.function], tree.arguments, BOOLEAN),), BOOLEAN)
    return Call("not", (Call("not", (tree,), BOOLEAN),), BOOLEAN)


# Rows


def values(data_type: DataType) -> st.SearchStrategy[Value]:
    if data_type.name == "DECIMAL":
        most = 10**data_type.precision - 1
        return st.integers(-most, most).map(lambda digits: Decimal(f"{digits}e-{data_type.scale}"))
    by_kind: dict[str, st.SearchStrategy[Value]] = {
        "BOOLEAN": st.booleans(),
        "BIGINT": bigints,
        "DOUBLE": st.floats() | st.sampled_from([-0.0, 0.0, 1.0, 5.0]),
        "STRING": texts | st.sampled_from(["12", " 1.5 ", "true", "10.0.0.1", "2020-01-01", "nan"]),
        "TIMESTAMP": timestamps,
        "ADDRESS": addresses,
    }
    return by_kind[data_type.name]


rows: st.SearchStrategy[dict[str, Value]] = st.fixed_dictionaries(
    {name: st.none() | values(data_type) for name, data_type in COLUMNS.items()}
)
