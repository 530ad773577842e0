"""The aggregates that queries may name: the built-in ones, and those that users registered in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from headrace.aggregates import choices, distinct, hitters, percentiles, sums
from headrace.aggregates.specification import PartialKind, Specification
from headrace.aggregates.user import DeclaredAggregate, UserAggregate
from headrace.expressions.functions import FUNCTIONS, SYNONYMS, Arguments, Rule
from headrace.model.errors import UsageError
from headrace.model.expressions import Aggregate, Literal
from headrace.model.schema import Catalog, UserFunction
from headrace.model.types import BINARY, DataType

FAMILIES = (sums, choices, percentiles, distinct, hitters)
BUILT_IN: tuple[Specification, ...] = tuple(specification for family in FAMILIES for specification in family.AGGREGATES)
AGGREGATES: Mapping[str, Specification] = {specification.name: specification for specification in BUILT_IN}
AGGREGATE_SYNONYMS: Mapping[str, str] = {
    synonym: specification.name for specification in BUILT_IN for synonym in specification.synonyms
}
KINDS: Mapping[str, PartialKind] = {
    kind.name: kind for kind in (distinct.VALUES, *(kind for specification in BUILT_IN for kind in specification.kinds))
}
RESERVED_NAMES = AGGREGATES.keys() | AGGREGATE_SYNONYMS.keys() | FUNCTIONS.keys() | SYNONYMS.keys()

USER_AGGREGATES: dict[str, DeclaredAggregate] = {}
"""By kind of partial. A name that is registered again, perhaps in a notebook, means the new class."""
USER_SPECIFICATIONS: dict[str, Specification] = {}
"""By function, in lower case: the names of user aggregates and of their extractors."""


def specification_of(function: str) -> Specification:
    return AGGREGATES[function] if function in AGGREGATES else USER_SPECIFICATIONS[function.lower()]


def kind_named(name: str) -> PartialKind:
    return KINDS[name] if name in KINDS else USER_AGGREGATES[name].kind


def make_aggregate(function: str, arguments: Arguments, is_distinct: bool = False) -> Aggregate:
    """Build a call of a built-in aggregate, with its type; ValueError if the arguments do not fit."""
    specification = AGGREGATES[function]
    if is_distinct and not specification.takes_distinct:
        raise ValueError("takes no DISTINCT")
    result = specification.result_type(arguments)
    if is_distinct and not arguments[0].type.is_comparable:
        raise ValueError(f"takes no DISTINCT over {arguments[0].type}")
    end = len(arguments) if specification.first_parameter is None else specification.first_parameter
    parameters = tuple(argument for argument in arguments[end:] if isinstance(argument, Literal))
    if specification.over_states is not None and arguments[0].type == BINARY:
        function = specification.over_states
    return Aggregate(function, arguments[:end], result, is_distinct, parameters=parameters)


# User-defined aggregates


def register_aggregates(aggregates: Iterable[DeclaredAggregate]) -> None:
    """Make aggregates known to plans and states in this process. Workers do it too, with what they are sent."""
    for aggregate in aggregates:
        if USER_AGGREGATES.get(aggregate.kind.name) is not aggregate:
            USER_AGGREGATES[aggregate.kind.name] = aggregate
            for specification in specifications_of(aggregate):
                USER_SPECIFICATIONS[specification.name.lower()] = specification


def specifications_of(aggregate: DeclaredAggregate) -> Iterator[Specification]:
    """Yield one for the output and one for each extractor. They share the aggregate's kind of partial."""
    for result in (aggregate.result(None), *aggregate.extractors):
        yield Specification(
            result.name,
            fixed_result(result.returns),
            (aggregate.kind,),
            first_parameter=len(aggregate.arguments),
            takes_distinct=False,
        )


def fixed_result(returns: DataType) -> Rule:
    """Return a rule for arguments that are already checked against the declaration."""
    return lambda _arguments: returns


def aggregate_called(function: str) -> DeclaredAggregate:
    """Return the user aggregate of this name, or with an extractor of this name."""
    (kind,) = USER_SPECIFICATIONS[function.lower()].kinds
    return USER_AGGREGATES[kind.name]


def names_of(aggregate: DeclaredAggregate) -> list[str]:
    """Return its name and those of its extractors, in lower case."""
    return [specification.name.lower() for specification in specifications_of(aggregate)]


def with_functions(catalog: Catalog, functions: Iterable[UserFunction | DeclaredAggregate]) -> Catalog:
    """Return the catalog with these functions and aggregates of users added."""
    checked = [check_function(function) for function in functions]
    new_functions = tuple(function for function in checked if isinstance(function, UserFunction))
    aggregates = tuple(function for function in checked if isinstance(function, DeclaredAggregate))
    taken = {function.name.lower() for function in (*catalog.functions, *new_functions)}
    taken.update(name for aggregate in catalog.aggregates for name in names_of(aggregate))
    for name in (name for aggregate in aggregates for name in names_of(aggregate)):
        if name in RESERVED_NAMES or name in taken:
            problem = "a built-in function" if name in RESERVED_NAMES else "there already"
            raise UsageError("udaf", f"'{name}' is {problem}", hint="give it another name")
        taken.add(name)
    register_aggregates(aggregates)
    return replace(
        catalog,
        functions=(*catalog.functions, *new_functions),
        aggregates=(*catalog.aggregates, *aggregates),
    )


def check_function(function: Any) -> UserFunction | DeclaredAggregate:
    """Return the function if it was made for queries; refuse a plain function or class with a hint."""
    if isinstance(function, UserFunction | DeclaredAggregate):
        return function
    kind = function if isinstance(function, type) else type(function)
    maker = "user_aggregate" if issubclass(kind, UserAggregate) else "user_function"
    name = getattr(function, "__name__", kind.__name__)
    hint = f"hand in headrace.{maker}({name})" if callable(function) or maker == "user_aggregate" else None
    raise UsageError("function", f"'{name}' is not a function or aggregate that was made for queries", hint=hint)
