"""Which partials an aggregate is lowered from, and what each costs. Several aggregates share one partial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.expressions import Aggregate, Expression


@dataclass(frozen=True, slots=True)
class Traits:
    """What the planner may know of a kind of partial: the cost of folding a row and of combining two, in additions."""

    fold: float
    combine: float
    state_bytes: int


KINDS: Mapping[str, Traits] = {
    "count": Traits(1, 1, 8),
    "sum": Traits(1, 3, 16),
    "min": Traits(1, 1, 8),
    "max": Traits(1, 1, 8),
    "moments": Traits(4, 6, 24),
    "values": Traits(20, 200, 256),
    "quantiles": Traits(20, 1_000, 2_048),
}
PARTIALS_OF: Mapping[str, tuple[str, ...]] = {
    "count": ("count",),
    "sum": ("sum",),
    "min": ("min",),
    "max": ("max",),
    "avg": ("sum", "count"),
    "var_pop": ("moments",),
    "var_samp": ("moments",),
    "stddev_pop": ("moments",),
    "stddev_samp": ("moments",),
    "percentile": ("quantiles",),
}


@dataclass(frozen=True, slots=True)
class Partial:
    """The lifted state of an aggregate over some rows; count(*) has no argument."""

    kind: str
    arguments: tuple[Expression, ...]
    filter: Expression | None = None

    @property
    def traits(self) -> Traits:
        return KINDS[self.kind]


def partials_of(aggregate: Aggregate) -> tuple[Partial, ...]:
    """What the aggregate's value is computed from. Its parameters (a percentile's fraction) are no part of it."""
    if aggregate.distinct:
        return (Partial("values", aggregate.arguments, aggregate.filter),)
    kinds = PARTIALS_OF[aggregate.function]
    return tuple(Partial(kind, aggregate.arguments[:1], aggregate.filter) for kind in kinds)
