"""The aggregates that users registered, by the names that queries call them: one list for each process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from headrace.aggregates.partials import USER_KINDS, USER_TRAITS
from headrace.aggregates.signatures import AGGREGATE_SYNONYMS, AGGREGATES
from headrace.aggregates.user import DeclaredAggregate, UserAggregate
from headrace.expressions.functions import FUNCTIONS, SYNONYMS
from headrace.model.errors import UsageError
from headrace.model.schema import Catalog, UserFunction

KIND = "user:"
BUILT_IN = AGGREGATES.keys() | AGGREGATE_SYNONYMS.keys() | FUNCTIONS.keys() | SYNONYMS.keys()
REGISTERED: dict[str, DeclaredAggregate] = {}
"""By kind of partial. Who registers a name anew, in a notebook perhaps, means the new class."""


def enlist(aggregates: Iterable[DeclaredAggregate]) -> None:
    """What plans and states in this process may be made of. Workers do it too, with the aggregates they are sent."""
    for aggregate in aggregates:
        kind = KIND + aggregate.name.lower()
        if REGISTERED.get(kind) is not aggregate:
            REGISTERED[kind] = aggregate
            USER_TRAITS[kind] = aggregate.traits
            USER_KINDS.update(dict.fromkeys(names_of(aggregate), kind))


def names_of(aggregate: DeclaredAggregate) -> list[str]:
    """Its own and those of its extractors, in lower case."""
    return [aggregate.name.lower(), *(each.name.lower() for each in aggregate.extractors)]


def aggregate_called(function: str) -> DeclaredAggregate:
    return REGISTERED[USER_KINDS[function.lower()]]


def with_functions(catalog: Catalog, functions: Iterable[UserFunction | DeclaredAggregate]) -> Catalog:
    """The catalog with functions and aggregates of users."""
    found = [checked_function(each) for each in functions]
    aggregates = [each for each in found if isinstance(each, DeclaredAggregate)]
    taken = [each.name.lower() for each in (*catalog.functions, *found) if isinstance(each, UserFunction)]
    taken += [name for aggregate in catalog.aggregates for name in names_of(aggregate)]
    for name in (name for aggregate in aggregates for name in names_of(aggregate)):
        if name in BUILT_IN or name in taken:
            problem = "a built-in function" if name in BUILT_IN else "there already"
            raise UsageError("udaf", f"'{name}' is {problem}", hint="give it another name")
        taken.append(name)
    enlist(aggregates)
    return replace(
        catalog,
        functions=(*catalog.functions, *(each for each in found if isinstance(each, UserFunction))),
        aggregates=(*catalog.aggregates, *aggregates),
    )


def checked_function(given: Any) -> UserFunction | DeclaredAggregate:
    if isinstance(given, UserFunction | DeclaredAggregate):
        return given
    kind = given if isinstance(given, type) else type(given)
    maker = "user_aggregate" if issubclass(kind, UserAggregate) else "user_function"
    name = getattr(given, "__name__", kind.__name__)
    hint = f"hand in headrace.{maker}({name})" if callable(given) or maker == "user_aggregate" else None
    raise UsageError("function", f"'{name}' is not a function or aggregate that was made for queries", hint=hint)
