"""Which partials an aggregate is lowered from, and what each costs. Several aggregates share one partial."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.model.expressions import Aggregate, Expression
from headrace.model.stored import stored


@dataclass(frozen=True, slots=True)
class Items:
    """States of a kind that grow with what they have seen: all values, or the distinct ones, up to some number. What
    one item costs when its state is combined, in additions, and its bytes.
    """

    are_distinct: bool
    most: float
    combine: float
    size: float


@dataclass(frozen=True, slots=True)
class Way:
    """A way to fold rows: additions for a row that finds one of its own value in a small table, and for another."""

    again: float
    new: float

    def additions(self, repeats: float) -> float:
        """Of a row, if such a share of them finds its like."""
        return repeats * self.again + (1.0 - repeats) * self.new


@dataclass(frozen=True, slots=True)
class Ways:
    """Of a kind that counts what is the same: rows as they come, or equal ones put together first [UDAF 4.2]."""

    buffer: Way
    compress: Way

    def is_compressed(self, repeats: float) -> bool:
        """Whether it pays to put equal rows together first."""
        return self.compress.additions(repeats) < self.buffer.additions(repeats)

    def additions(self, repeats: float) -> float:
        """Of a row, by the cheaper way."""
        return (self.compress if self.is_compressed(repeats) else self.buffer).additions(repeats)


@dataclass(frozen=True, slots=True)
class Traits:
    """What the planner may know of a kind of partial: the cost of folding a row and of combining two, in additions.

    When two results are the same: exact; close (DOUBLE sums, by 1e-9 of the sum of magnitudes); or each within `error`
    of the truth: of the rank for quantiles, of the value for buckets, of the number of values, or of the total weight.
    """

    fold: float | Ways
    combine: float
    state_bytes: int
    equality: str = "exact"
    error: float = 0.0
    items: Items | None = None

    @property
    def ways(self) -> Ways | None:
        """To fold rows, where there is a choice."""
        return self.fold if isinstance(self.fold, Ways) else None


KINDS: Mapping[str, Traits] = {
    "count": Traits(1, 1, 8),
    "sum": Traits(1, 3, 16, "close"),
    "min": Traits(1, 1, 8),
    "max": Traits(1, 1, 8),
    "moments": Traits(4, 6, 24, "close"),
    "values": Traits(20, 50, 8, items=Items(True, 1e9, 20, 12)),
    "all": Traits(1, 1, 1),
    "any": Traits(1, 1, 1),
    "least_by": Traits(20, 20, 17),
    "greatest_by": Traits(20, 20, 17),
    "multiset": Traits(20, 50, 16, "close", items=Items(True, 1e9, 30, 20)),
    "quantiles": Traits(15, 600, 40, "bounded", 0.01, Items(False, 1_200, 16, 8)),
    "buckets": Traits(12, 400, 50, "bounded", 0.01, Items(True, 300, 8, 3)),
    "distinct": Traits(12, 120, 12, "bounded", 0.05, Items(True, 384, 16, 10)),
    "counters": Traits(
        Ways(buffer=Way(8, 33), compress=Way(2, 38)), 400, 24, "bounded", 0.004, Items(True, 256, 80, 20)
    ),
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
    "bool_and": ("all",),
    "bool_or": ("any",),
    "min_by": ("least_by",),
    "max_by": ("greatest_by",),
    "median": ("multiset",),
    "percentile": ("multiset",),
    "approx_median": ("quantiles",),
    "percentile_approx": ("quantiles",),
    "quantiles": ("quantiles",),
    "quantile_sketch": ("quantiles",),
    "percentile_relative": ("buckets",),
    "relative_sketch": ("buckets",),
    "approx_count_distinct": ("distinct",),
    "distinct_sketch": ("distinct",),
    "heavy_hitters": ("counters",),
    "top_k": ("counters",),
}
USER_KINDS: dict[str, str] = {}
USER_TRAITS: dict[str, Traits] = {}
"""The partials of aggregates that users registered, by function, and their traits: see `registered`."""
MEETING_PLACES = 1 << 16
"""Of the table in which equal rows meet, if there are so many rows."""
COUNTERS = 256
SIZES = {"quantiles": 400, "distinct": 384, "counters": COUNTERS}
"""Up to so many items a state is exact, if the query asks for no better one: values of a KLL sketch (its k), hashes of
an HLL sketch (with 2 ** 12 registers), items of a summary of heavy hitters.
"""
ACCURACY, ACCURACY_POWER = 100, 0.9723
"""Of a KLL sketch of the usual size, whose error is 1 / accuracy of the rank; it falls with this power of k."""
DEVIATION = 1.04 / 2**6
"""Of an HLL sketch of the usual size; it falls with the square root of the number of registers."""


@stored("Partial", "kind", "arguments", "filter", "size")
@dataclass(frozen=True, slots=True)
class Partial:
    """The lifted state of an aggregate over some rows; count(*) has no argument. A `size` other than 0 is not that of
    SIZES, but larger.
    """

    kind: str
    arguments: tuple[Expression, ...]
    filter: Expression | None = None
    size: int = 0

    @property
    def traits(self) -> Traits:
        return KINDS[self.kind] if self.kind in KINDS else USER_TRAITS[self.kind]


def kinds_of(function: str) -> tuple[str, ...]:
    return PARTIALS_OF[function] if function in PARTIALS_OF else (USER_KINDS[function.lower()],)


def partials_of(aggregate: Aggregate) -> tuple[Partial, ...]:
    """What the aggregate's value is computed from. Its parameters (a percentile's fraction) are no part of it."""
    if aggregate.distinct:
        return (Partial("values", aggregate.arguments, aggregate.filter),)
    kinds = kinds_of(aggregate.function)
    return tuple(Partial(kind, aggregate.arguments, aggregate.filter, size_of(aggregate)) for kind in kinds)


def size_of(aggregate: Aggregate) -> int:
    """How many items a state needs for what is asked: the usual number, doubled until it is enough, for few different
    partials; 0 if the usual one is.
    """
    wanted_by = WANTED_SIZES.get(aggregate.function)
    if wanted_by is None:
        return 0
    usual = size = SIZES[PARTIALS_OF[aggregate.function][0]]
    wanted = wanted_by(*(float(str(parameter.value)) for parameter in aggregate.parameters))
    while size < wanted:
        size *= 2
    return 0 if size == usual else size


WANTED_SIZES: Mapping[str, Callable[..., float]] = {
    "percentile_approx": lambda _fraction, accuracy=1.0: 400 * (accuracy / ACCURACY) ** (1 / ACCURACY_POWER),
    "approx_count_distinct": lambda deviation=1.0: 384 * (DEVIATION / deviation) ** 2,
    "top_k": lambda k: 8 * k,
    "heavy_hitters": lambda phi: 2 / phi,
}
"""From the parameters of a call."""
