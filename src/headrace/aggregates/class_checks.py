"""The checks of a user's class: whether it declares all that an aggregate needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa

from headrace.aggregates.specification import PartialKind
from headrace.aggregates.user import KIND_PREFIX, DeclaredAggregate, Extractor, UserAggregate, has_method
from headrace.aggregates.user_states import FAILURE, StateForm
from headrace.model.arrow import arrow_type
from headrace.model.errors import UsageError, nearest
from headrace.model.functions import FUNCTION_NAME
from headrace.model.types import TYPE_NAMES, DataType, decimal

EQUALITIES = ("exact", "close", "bounded")
DECIMAL_TYPE = re.compile(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d{1,3})\s*(?:,\s*(\d{1,3})\s*)?\)")
ARRAY_TYPE = re.compile(r"ARRAY\s*<(.+)>")


def declare(aggregate: type[UserAggregate] | UserAggregate) -> DeclaredAggregate:
    """Return the declaration of a class, or of an object with parameters; refuse what is incomplete."""
    implementation = instantiate(aggregate)
    name = implementation.name or type(implementation).__name__
    if not FUNCTION_NAME.fullmatch(name):
        refuse(name, "its name has other characters than letters, digits and underscores")
    check_methods(implementation, name)
    written = (
        (implementation.arguments,) if isinstance(implementation.arguments, str) else tuple(implementation.arguments)
    )
    if not written:
        refuse(name, "it has no arguments", 'arguments = ("DOUBLE",)')
    arguments = tuple(value_type(text, name) for text in written)
    low = None if implementation.low is None else declare(implementation.low)
    if low is not None and (low.low is not None or low.arguments != arguments):
        refuse(name, f"its low level {low.name} must take the same arguments and have no low level of its own")
    form = form_of(implementation, name)
    returns = value_type(implementation.returns, name)
    kind = kind_of(implementation, name, form)
    return DeclaredAggregate(
        name, arguments, returns, form, extractors_of(implementation, name), kind, implementation, low
    )


def instantiate(aggregate: type[UserAggregate] | UserAggregate) -> UserAggregate:
    kind = aggregate if isinstance(aggregate, type) else type(aggregate)
    if not issubclass(kind, UserAggregate):
        refuse(kind.__name__, "it is not derived from UserAggregate")
    if not isinstance(aggregate, type):
        return aggregate
    try:
        return aggregate()
    except Exception as problem:
        message = f"{kind.__name__} can't be made without parameters: {problem}"
        raise UsageError("udaf", message, hint="register an object of it") from problem


def refuse(name: str, problem: str, hint: str | None = None) -> NoReturn:
    raise UsageError("udaf", f"{name} is not an aggregate: {problem}", hint=hint)


def check_methods(implementation: UserAggregate, name: str) -> None:
    missing = [method for method in ("initialize", "merge", "output") if not has_method(implementation, method)]
    if not (has_method(implementation, "update") or has_method(implementation, "update_batch") or implementation.low):
        missing.append("update")
    if missing:
        refuse(name, f"it has no {' and no '.join(missing)}")
    if implementation.equality not in EQUALITIES:
        refuse(name, f"'{implementation.equality}' is no equality", f"one of {', '.join(EQUALITIES)}")
    if (implementation.equality == "bounded") != (implementation.error > 0):
        refuse(name, "`equality = 'bounded'` and an `error` above 0 belong together")
    if implementation.full_every < 1:
        refuse(name, "`full_every` is a number of rows, at least 1")


def form_of(implementation: UserAggregate, name: str) -> StateForm:
    names = tuple(implementation.state)
    if not names or FAILURE in names or not all(FUNCTION_NAME.fullmatch(field) for field in names):
        refuse(name, f"its state needs fields with plain names other than '{FAILURE}'", 'state = {"total": "DOUBLE"}')
    types = tuple(state_type(text, name) for text in implementation.state.values())
    try:
        first = implementation.initialize()
        parts = StateForm(names, types, dict, {}).parts(first)
    except Exception as problem:
        raise UsageError("udaf", f"{name} is not an aggregate: initialize: {problem}") from problem
    if is_dataclass(first) and tuple(field.name for field in fields(first)) != names:
        refuse(name, f"the fields of {type(first).__name__} are not those of its state")
    arrays = {field: part.dtype for field, part in zip(names, parts, strict=True) if isinstance(part, np.ndarray)}
    return StateForm(names, types, dict if isinstance(first, Mapping) else type(first), arrays)


def extractors_of(implementation: UserAggregate, name: str) -> tuple[Extractor, ...]:
    extractors = []
    for method in dir(type(implementation)):
        mark = getattr(getattr(type(implementation), method), "extracts", None)
        if mark is not None:
            called, returns, parameters = mark
            types = tuple(value_type(text, name) for text in parameters)
            extractors.append(Extractor(called or method, types, value_type(returns, name), method))
    return tuple(extractors)


def kind_of(implementation: UserAggregate, name: str, form: StateForm) -> PartialKind:
    """Return the kind of the aggregate's partials. Default costs are those of Python calls, which a batch spreads."""
    return PartialKind(
        KIND_PREFIX + name.lower(),
        fold=implementation.fold_cost or (20.0 if has_method(implementation, "update_batch") else 500.0),
        combine=implementation.combine_cost or 2_000.0,
        state_bytes=sum(arrow.bit_width // 8 + 1 if pa.types.is_primitive(arrow) else 64 for arrow in form.types),
        equality=implementation.equality,
        error=implementation.error,
    )


def value_type(text: str, owner: str) -> DataType:
    """Return the type of an SQL name."""
    written = str(text).strip().upper()
    match = DECIMAL_TYPE.fullmatch(written)
    try:
        return decimal(int(match[1]), int(match[2] or 0)) if match else TYPE_NAMES[written]
    except KeyError:
        refuse(owner, f"'{text}' is not a type", nearest(written, TYPE_NAMES))
    except ValueError as problem:
        refuse(owner, str(problem))


def state_type(text: str, owner: str) -> pa.DataType:
    """Return a type of a state: one of SQL, an array of them, or bytes for what the class packs."""
    written = str(text).strip().upper()
    match = ARRAY_TYPE.fullmatch(written)
    if match:
        return pa.list_(state_type(match[1], owner))
    return pa.large_binary() if written == "BINARY" else arrow_type(value_type(text, owner))
