"""The partials that an aggregate is lowered from. Equal partials are computed once for all aggregates."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.aggregates.distinct import VALUES
from headrace.aggregates.registry import kind_named, specification_of
from headrace.aggregates.specification import PartialKind
from headrace.model.expressions import Aggregate, Expression
from headrace.model.stable_names import stored


@stored("Partial", "kind", "arguments", "filter", "size")
@dataclass(frozen=True, slots=True)
class Partial:
    """The lifted state of an aggregate over some rows; count(*) has no argument.

    `size` is 0 for the default size of the kind; otherwise it is larger than that.
    """

    kind: str
    arguments: tuple[Expression, ...]
    filter: Expression | None = None
    size: int = 0

    @property
    def traits(self) -> PartialKind:
        return kind_named(self.kind)


def partials_of(aggregate: Aggregate) -> tuple[Partial, ...]:
    """Return what the aggregate is lowered from. Its parameters (a percentile's fraction) are no part of it."""
    if aggregate.distinct:
        return (Partial(VALUES.name, aggregate.arguments, aggregate.filter),)
    kinds, size = specification_of(aggregate.function).kinds, size_of(aggregate)
    return tuple(Partial(kind.name, aggregate.arguments, aggregate.filter, size) for kind in kinds)


def size_of(aggregate: Aggregate) -> int:
    """Return how many items a state needs for the accuracy that is asked for, or 0 if the default size is enough.

    Sizes double, so that there are few different partials.
    """
    specification = specification_of(aggregate.function)
    if specification.wanted_size is None:
        return 0
    default = size = specification.kinds[0].default_size
    wanted = specification.wanted_size(*(float(str(parameter.value)) for parameter in aggregate.parameters))
    while size < wanted:
        size *= 2
    return 0 if size == default else size
