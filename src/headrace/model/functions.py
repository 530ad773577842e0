"""User functions: plain Python functions that queries may call by name."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Sequence
from typing import overload

from headrace.model.schema import UserFunction
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, STRING, TYPE_NAMES, DataType

TYPES_OF_HINTS: dict[object, DataType] = {bool: BOOLEAN, int: BIGINT, float: DOUBLE, str: STRING}
FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

Implementation = Callable[..., object]


@overload
def user_function(implementation: Implementation, /) -> UserFunction: ...


@overload
def user_function(
    *,
    name: str | None = None,
    parameters: Sequence[str] | None = None,
    returns: str | None = None,
    vectorized: bool = False,
) -> Callable[[Implementation], UserFunction]: ...


def user_function(
    implementation: Implementation | None = None,
    /,
    *,
    name: str | None = None,
    parameters: Sequence[str] | None = None,
    returns: str | None = None,
    vectorized: bool = False,
) -> UserFunction | Callable[[Implementation], UserFunction]:
    """Make a Python function callable in queries.

    Types come from the hints (`str`, `int`, `float`, `bool`) or are given by their SQL names. The function must be
    deterministic, since rows may be replayed. It is not called where an argument is NULL: the result is NULL then. If
    it raises, the row's value is NULL and the query's error count grows.

    A vectorized function takes Arrow arrays without NULLs, one for each parameter, and gives an Arrow or NumPy array of
    as many values; its types are given by their SQL names. If it raises, all the rows it was called with fail.
    """

    def declare(function: Implementation) -> UserFunction:
        hints = typing.get_type_hints(function)
        result = hints.pop("return", None)
        declared_name: str = name if name is not None else getattr(function, "__name__", "")
        if not FUNCTION_NAME.fullmatch(declared_name):
            raise ValueError(f"'{declared_name}' can't be the name of a function")
        takes = (
            tuple(map(type_named, parameters)) if parameters is not None else tuple(map(type_hinted, hints.values()))
        )
        gives = type_named(returns) if returns is not None else type_hinted(result)
        return UserFunction(declared_name, takes, gives, function, vectorized)

    return declare if implementation is None else declare(implementation)


def type_named(name: str) -> DataType:
    data_type = TYPE_NAMES.get(name.upper())
    if data_type is None:
        raise ValueError(f"'{name}' is not a type; known are {', '.join(sorted(TYPE_NAMES))}")
    return data_type


def type_hinted(hint: object) -> DataType:
    data_type = TYPES_OF_HINTS.get(hint)
    if data_type is None:
        raise ValueError(
            "hint the arguments and the result with str, int, float or bool, or give parameters= and returns="
        )
    return data_type
