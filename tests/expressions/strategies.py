"""Random well-typed expressions: every function of the table, every cast, to any depth."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from hypothesis import strategies as st

from headrace.expressions.functions import CASTS, FUNCTIONS
from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.schema import UserFunction
from headrace.model.types import ADDRESS, BIGINT, BOOLEAN, DOUBLE, MAX_BIGINT, MIN_BIGINT, NULL, STRING, TIMESTAMP
from tests.expressions.batches import COLUMNS, KINDS, NUMERIC, RELATION, TYPES, Draw, values

INEXACT = {"exp", "ln", "log2", "log10", "power"}
"""Libraries differ in the last digits of these, so nothing is built on their results."""
PATTERNS = [
    "",
    "%",
    "_",
    "a%",
    "%b",
    "%a%",
    "a_b",
    "a\\%b",
    "a\\_b",
    "\\\\",
    "\\",
    "%\\%",
    "__",
    "%ß%",
    "_\n_",
    "a%b%",
    "é_",
    "%\x00%",
]
NETWORKS = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.0.0.1",
    "192.168.1.0/25",
    "::/0",
    "::/96",
    "2001:db8::/32",
    "2001:db8::/65",
    "::1/128",
]
NETWORKS += ["::ffff:10.0.0.0/104", "::/64", "fe80::/10"]


# User functions


def half(number: int) -> int:
    if number % 2:
        raise ValueError("odd")
    return number // 2


USER_FUNCTIONS = (
    UserFunction("half", (BIGINT,), BIGINT, half),
    UserFunction("Label", (STRING, DOUBLE), STRING, lambda text, number: f"{text}:{number == 0}"),
    UserFunction("untrue", (BIGINT,), BIGINT, lambda number: number / 3 if number > 0 else number),
    UserFunction("local", (ADDRESS,), ADDRESS, lambda address: address if address % 2 else None),
    UserFunction("later", (TIMESTAMP,), TIMESTAMP, lambda time_us: max(time_us, 0)),
    UserFunction("yes", (BOOLEAN, STRING), BOOLEAN, lambda flag, text: flag or text),
    UserFunction("answer", (), DOUBLE, lambda: 42),
)


# Expressions

Shape = tuple[str, ...]
SPECIAL: dict[str, st.SearchStrategy[Expression]] = {
    "PATTERN": st.sampled_from(PATTERNS).map(lambda text: Literal(text, STRING)),
    "NETWORK": st.sampled_from(NETWORKS).map(lambda text: Literal(text, STRING)),
    "PREFIX": st.integers(0, 128).map(lambda number: Literal(number, BIGINT)),
    "DIGITS": st.integers(0, 18).map(lambda number: Literal(number, BIGINT)),
    "SMALL": st.sampled_from([0, 1, 2, 3, 5, -1, -2, -3, MAX_BIGINT, MIN_BIGINT]).map(lambda n: Literal(n, BIGINT)),
    "NULL": st.just(Literal(None, NULL)),
}
"""Arguments that are constants of a special form."""
PAIRS: list[Shape] = list(product(NUMERIC, NUMERIC))
MIXES: list[Shape] = [*((kind, kind) for kind in KINDS), *PAIRS]


def each(*shapes: str) -> list[Shape]:
    return [tuple(shape.split()) for shape in shapes]


def mixed() -> list[Shape]:
    lists = [(kind,) * 3 for kind in KINDS] + [("BIGINT", "DECIMAL", "DOUBLE"), ("DECIMAL", "BIGINT", "DECIMAL")]
    return [*MIXES, *lists, ("NULL", "BIGINT"), ("DECIMAL", "NULL", "DECIMAL")]


SHAPES: dict[str, list[Shape]] = {
    **dict.fromkeys(("+", "-", "*", "/", "%", "power"), PAIRS),
    "div": each("BIGINT BIGINT"),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), MIXES),
    **dict.fromkeys(("and", "or"), each("BOOLEAN BOOLEAN", "BOOLEAN BOOLEAN BOOLEAN")),
    **dict.fromkeys(("not", "is_true", "is_false"), each("BOOLEAN")),
    **dict.fromkeys(("is_null", "is_not_null"), each(*KINDS)),
    "in": [(first, *(f"={kind}" for kind in rest)) for first, *rest in mixed()] + mixed(),
    "like": each("STRING PATTERN"),
    "case": [("BOOLEAN", *shape) for shape in MIXES]
    + [("BOOLEAN", first, "BOOLEAN", second, third) for first, second, third in [s for s in mixed() if len(s) == 3]],
    **dict.fromkeys(("negate", "abs", "sign", "ceil", "floor"), each(*NUMERIC)),
    "round": [*each(*NUMERIC), *((kind, "DIGITS") for kind in NUMERIC)],
    **dict.fromkeys(("sqrt", "exp", "ln", "log2", "log10"), each(*NUMERIC)),
    **dict.fromkeys(("greatest", "least"), mixed()),
    "coalesce": [*each(*KINDS), *mixed()],
    "nullif": MIXES,
    "concat": each("STRING", "STRING STRING", "STRING STRING STRING"),
    **dict.fromkeys(("lower", "upper", "length", "trim", "ltrim", "rtrim"), each("STRING")),
    "substring": each(
        "STRING SMALL", "STRING SMALL SMALL", "STRING BIGINT", "STRING BIGINT SMALL", "STRING SMALL BIGINT"
    ),
    **dict.fromkeys(("left", "right"), each("STRING SMALL", "STRING BIGINT")),
    "replace": each("STRING =STRING =STRING", "STRING STRING STRING", "STRING STRING =STRING"),
    **dict.fromkeys(("instr", "starts_with", "ends_with", "contains"), each("STRING =STRING", "STRING STRING")),
    **dict.fromkeys(("unix_seconds", "unix_millis", "unix_micros"), each("TIMESTAMP")),
    "ip_in": each("ADDRESS NETWORK"),
    "ip_prefix": each("ADDRESS PREFIX"),
}
"""For each function of the table the kinds of arguments it is called with; =KIND is a constant."""
CAST_PAIRS = sorted((source, target) for source, targets in CASTS.items() for target in targets)


def producers() -> dict[str, dict[str, list[Shape]]]:
    """By kind of result: the functions that give it, and for which arguments. The table's own rules tell."""
    found: dict[str, dict[str, list[Shape]]] = {kind: {} for kind in (*KINDS, "NULL")}
    for name, shape in all_shapes():
        result = FUNCTIONS[name](tuple(stand_in(kind) for kind in shape))
        found[result.name].setdefault(name, []).append(shape)
    for source, target in CAST_PAIRS:
        found[target].setdefault("cast", []).append((source,))
    for function in USER_FUNCTIONS:
        found[function.returns.name][function.name] = [tuple(kind.name for kind in function.parameters)]
    return found


def all_shapes() -> Iterator[tuple[str, Shape]]:
    return ((name, shape) for name, shapes in SHAPES.items() for shape in shapes)


STAND_INS: dict[str, Expression] = {
    "PATTERN": Literal("", STRING),
    "NETWORK": Literal("::/0", STRING),
    **dict.fromkeys(("PREFIX", "DIGITS", "SMALL"), Literal(1, BIGINT)),
    "NULL": Literal(None, NULL),
}


def stand_in(kind: str) -> Expression:
    plain = kind.lstrip("=")
    return STAND_INS[plain] if plain in STAND_INS else ColumnRef(RELATION, "any", TYPES[plain][0])


PRODUCERS = producers()


def expression(draw: Draw, depth: int = 4) -> Expression:
    """Inexact functions only at the top."""
    return tree(draw, draw(st.sampled_from(KINDS)), depth, frozenset())


def tree(draw: Draw, kind: str, depth: int, left_out: frozenset[str] = frozenset(INEXACT)) -> Expression:
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return leaf(draw, kind)
    choices = PRODUCERS[kind]
    name = draw(st.sampled_from(sorted(choices.keys() - left_out)))
    return call(draw, name, draw(st.sampled_from(choices[name])), kind, depth - 1)


def call(draw: Draw, name: str, shape: Shape, kind: str, depth: int) -> Expression:
    """A call with arguments of these kinds; a column of that kind if the digits of a DECIMAL do not allow it."""
    arguments = tuple(argument(draw, wanted, depth) for wanted in shape)
    if name == "cast":
        source = arguments[0].type
        targets = [target for target in TYPES[kind] if target != source]
        return Call(name, arguments, draw(st.sampled_from(targets))) if targets else arguments[0]
    user = next((function for function in USER_FUNCTIONS if function.name == name), None)
    if user is not None:
        return Call(name, arguments, user.returns)
    try:
        return Call(name, arguments, FUNCTIONS[name](arguments))
    except ValueError:
        return leaf(draw, kind)


def argument(draw: Draw, wanted: str, depth: int) -> Expression:
    plain = wanted.lstrip("=")
    if plain in SPECIAL:
        special: Expression = draw(SPECIAL[plain])
        return special
    if wanted != plain:
        return literal(draw, plain)
    return Literal(None, NULL) if draw(st.integers(0, 30)) == 30 else tree(draw, wanted, depth)


def leaf(draw: Draw, kind: str) -> Expression:
    if draw(st.integers(0, 2)) == 0:
        return literal(draw, kind)
    chosen: ColumnRef = draw(st.sampled_from([column for column in COLUMNS if column.type.name == kind]))
    return chosen


def literal(draw: Draw, kind: str) -> Literal:
    data_type = draw(st.sampled_from(TYPES[kind]))
    return Literal(draw(values(data_type)), data_type)
