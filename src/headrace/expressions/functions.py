"""The function table: every operator and function of the language with its typing rule. Adding one is one line here.

A rule takes the typed arguments and gives the type of the result, or raises ValueError with the reason in plain words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from headrace.model import address
from headrace.model.expressions import Expression, Literal
from headrace.model.types import (
    ADDRESS,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    MAX_DECIMAL_DIGITS,
    NULL,
    STRING,
    TIMESTAMP,
    DataType,
    as_decimal,
    common_type,
    decimal,
)

WILDCARDS = ("%", "_")
MAX_WILDCARDS = 100
"""In one LIKE pattern: matching a text takes time in proportion to their number."""
Arguments = tuple[Expression, ...]
Rule = Callable[[Arguments], DataType]


def fixed_types(parameters: tuple[DataType, ...], returns: DataType, optional: int = 0) -> Rule:
    """Exactly these parameter types; the last `optional` ones may be left out. BIGINT widens to DOUBLE."""

    def rule(arguments: Arguments) -> DataType:
        check_count(arguments, len(parameters) - optional, len(parameters))
        for position, (argument, parameter) in enumerate(zip(arguments, parameters, strict=False), start=1):
            fits = argument.type in (parameter, NULL) or (parameter == DOUBLE and argument.type.is_numeric)
            if not fits:
                raise ValueError(f"takes {parameter} as argument {position}, not {argument.type}")
        return returns

    return rule


def check_count(arguments: Arguments, least: int, most: int | None) -> None:
    if len(arguments) < least or (most is not None and len(arguments) > most):
        expected = f"{least}" if least == most else f"{least} or more" if most is None else f"{least} to {most}"
        raise ValueError(f"takes {expected} argument{'' if expected == '1' else 's'}, not {len(arguments)}")


def check_types(arguments: Arguments, wanted: DataType, refusal: str) -> None:
    """Raise the refusal, with the type, for an argument that is neither of the wanted type nor NULL."""
    for argument in arguments:
        if argument.type not in (wanted, NULL):
            raise ValueError(refusal.format(argument.type))


def numeric(arguments: Arguments, count: int = 1) -> list[DataType]:
    check_count(arguments, count, count)
    for argument in arguments:
        if not argument.type.is_numeric and argument.type != NULL:
            raise ValueError(f"takes numbers, not {argument.type}")
    return [BIGINT if argument.type == NULL else argument.type for argument in arguments]


def arithmetic(decimal_result: Callable[[DataType, DataType], tuple[int, int]]) -> Rule:
    """DOUBLE if one side is; else DECIMAL if one side is; else BIGINT."""

    def rule(arguments: Arguments) -> DataType:
        left, right = numeric(arguments, 2)
        if DOUBLE in (left, right):
            return DOUBLE
        if left == right == BIGINT:
            return BIGINT
        digits, scale = decimal_result(as_decimal(left), as_decimal(right))
        if scale > MAX_DECIMAL_DIGITS:
            raise ValueError("would have more than 38 digits after the point; CAST an operand to fewer")
        return decimal(min(MAX_DECIMAL_DIGITS, digits), scale)

    return rule


def sum_digits(left: DataType, right: DataType) -> tuple[int, int]:
    scale = max(left.scale, right.scale)
    return max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale


def product_digits(left: DataType, right: DataType) -> tuple[int, int]:
    return left.precision + right.precision + 1, left.scale + right.scale


def division(arguments: Arguments) -> DataType:
    numeric(arguments, 2)
    return DOUBLE


def integer_division(arguments: Arguments) -> DataType:
    if any(kind != BIGINT for kind in numeric(arguments, 2)):
        raise ValueError("divides whole numbers; write floor(a / b) for others")
    return BIGINT


def same_number(arguments: Arguments) -> DataType:
    return numeric(arguments)[0]


def whole_number(arguments: Arguments) -> DataType:
    kind = numeric(arguments)[0]
    return decimal(min(MAX_DECIMAL_DIGITS, kind.precision - kind.scale + 1), 0) if kind.name == "DECIMAL" else BIGINT


def rounding(arguments: Arguments) -> DataType:
    check_count(arguments, 1, 2)
    if len(arguments) == 2:
        literal_in_range(arguments[1], 0, 18, "the number of digits")
    return numeric(arguments[:1])[0]


def real_function(arguments: Arguments) -> DataType:
    numeric(arguments)
    return DOUBLE


def literal_in_range(argument: Expression, least: int, most: int, what: str) -> None:
    value = argument.value if isinstance(argument, Literal) else None
    if argument.type != BIGINT or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"needs {what} as a whole number from {least} to {most}")


def unify_types(arguments: Arguments, least: int = 1, most: int | None = None) -> DataType:
    """The common type of all arguments."""
    check_count(arguments, least, most)
    result = NULL
    for argument in arguments:
        mixed = common_type(result, argument.type)
        if mixed is None:
            raise ValueError(f"mixes {result} with {argument.type}")
        result = mixed
    return result


def comparison(arguments: Arguments) -> DataType:
    left, right = arguments
    if common_type(left.type, right.type) is None:
        raise ValueError(f"can't compare {left.type} with {right.type}")
    return BOOLEAN


def membership(arguments: Arguments) -> DataType:
    for candidate in arguments[1:]:
        comparison((arguments[0], candidate))
    return BOOLEAN


def boolean(arguments: Arguments) -> DataType:
    check_types(arguments, BOOLEAN, "takes conditions, not {}")
    return BOOLEAN


def any_to_boolean(arguments: Arguments) -> DataType:
    check_count(arguments, 1, 1)
    return BOOLEAN


def case(arguments: Arguments) -> DataType:
    """Arguments are condition, value, condition, value, ..., otherwise."""
    boolean(arguments[:-1:2])
    return unify_types((*arguments[1::2], arguments[-1]))


def null_if(arguments: Arguments) -> DataType:
    check_count(arguments, 2, 2)
    comparison(arguments)
    return arguments[0].type


def all_strings(arguments: Arguments) -> DataType:
    check_count(arguments, 1, None)
    check_types(arguments, STRING, "joins STRINGs, not {}; CAST it AS STRING first")
    return STRING


def like(arguments: Arguments) -> DataType:
    text, pattern = arguments
    check_types((text,), STRING, "matches STRINGs, not {}")
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise ValueError("needs a constant pattern")
    if sum(part in WILDCARDS for part in pattern_parts(pattern.value)) > MAX_WILDCARDS:
        raise ValueError(f"takes a pattern with at most {MAX_WILDCARDS} wildcards (% and _)")
    return BOOLEAN


def pattern_parts(pattern: str) -> list[str]:
    """Split a LIKE pattern into wildcards, characters and characters behind a backslash."""
    return re.findall(r"\\.|.", pattern, re.DOTALL)


def in_network(arguments: Arguments) -> DataType:
    check_count(arguments, 2, 2)
    check_types(arguments[:1], ADDRESS, "takes an ADDRESS, not {}")
    network = arguments[1]
    if not isinstance(network, Literal) or not isinstance(network.value, str):
        raise ValueError("needs a constant network such as '10.0.0.0/8'")
    try:
        address.parse_network(network.value)
    except ValueError as problem:
        raise ValueError(f"needs a network such as '10.0.0.0/8': {problem}") from None
    return BOOLEAN


def network_prefix(arguments: Arguments) -> DataType:
    check_count(arguments, 2, 2)
    check_types(arguments[:1], ADDRESS, "takes an ADDRESS, not {}")
    literal_in_range(arguments[1], 0, 128, "the length of the prefix")
    return ADDRESS


CASTS = {
    "BOOLEAN": {"BIGINT", "STRING"},
    "BIGINT": {"BOOLEAN", "DOUBLE", "DECIMAL", "STRING"},
    "DOUBLE": {"BIGINT", "DECIMAL"},
    "DECIMAL": {"BIGINT", "DOUBLE", "DECIMAL", "STRING"},
    "STRING": {"BOOLEAN", "BIGINT", "DOUBLE", "DECIMAL", "TIMESTAMP", "ADDRESS"},
    "TIMESTAMP": set(),
    "ADDRESS": {"STRING"},
}
CAST_HINTS = {
    ("DOUBLE", "STRING"): "engines write the same DOUBLE in different ways; CAST it AS DECIMAL(p, s) first",
    ("TIMESTAMP", "BIGINT"): "use unix_seconds(t), unix_millis(t) or unix_micros(t)",
}


def check_cast(source: DataType, target: DataType) -> None:
    if source in (NULL, target) or target.name in CASTS.get(source.name, ()):
        return
    reason = CAST_HINTS.get((source.name, target.name))
    raise ValueError(f"can't cast {source} to {target}" + (f": {reason}" if reason else ""))


FUNCTIONS: Mapping[str, Rule] = {
    # operators, under their symbol or keyword
    **dict.fromkeys(("+", "-", "%"), arithmetic(sum_digits)),
    "*": arithmetic(product_digits),
    "/": division,
    "div": integer_division,
    "negate": same_number,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), comparison),
    **dict.fromkeys(("and", "or", "not", "is_true", "is_false"), boolean),
    "in": membership,
    "like": like,
    "is_null": any_to_boolean,
    "is_not_null": any_to_boolean,
    "case": case,
    # numbers
    "abs": same_number,
    "sign": same_number,
    "ceil": whole_number,
    "floor": whole_number,
    "round": rounding,
    **dict.fromkeys(("sqrt", "exp", "ln", "log2", "log10"), real_function),
    "power": division,
    **dict.fromkeys(("greatest", "least"), lambda arguments: unify_types(arguments, least=2)),
    # NULLs
    "coalesce": unify_types,
    "nullif": null_if,
    # strings
    "concat": all_strings,
    **dict.fromkeys(("lower", "upper", "trim", "ltrim", "rtrim"), fixed_types((STRING,), STRING)),
    "length": fixed_types((STRING,), BIGINT),
    "substring": fixed_types((STRING, BIGINT, BIGINT), STRING, optional=1),
    **dict.fromkeys(("left", "right"), fixed_types((STRING, BIGINT), STRING)),
    "replace": fixed_types((STRING, STRING, STRING), STRING),
    "instr": fixed_types((STRING, STRING), BIGINT),
    **dict.fromkeys(("starts_with", "ends_with", "contains"), fixed_types((STRING, STRING), BOOLEAN)),
    # time
    **dict.fromkeys(("unix_seconds", "unix_millis", "unix_micros"), fixed_types((TIMESTAMP,), BIGINT)),
    # addresses
    "ip_in": in_network,
    "ip_prefix": network_prefix,
}

SYNONYMS = {
    "ceiling": "ceil",
    "char_length": "length",
    "character_length": "length",
    "endswith": "ends_with",
    "ifnull": "coalesce",
    "lcase": "lower",
    "nvl": "coalesce",
    "pow": "power",
    "signum": "sign",
    "startswith": "starts_with",
    "substr": "substring",
    "ucase": "upper",
}
OPERATORS = frozenset(list(FUNCTIONS)[: list(FUNCTIONS).index("abs")])
"""Names in the table that are not written like a function call."""
