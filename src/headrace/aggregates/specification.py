"""The contract of an aggregate: what queries may write, and the kinds of partials that its value is lowered from.

A family of built-in aggregates is one module of specifications and one line in `registry.py`. User-defined aggregates
are registered with the same values. Aggregates that share a kind of partial share the partials too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.expressions.functions import Rule


@dataclass(frozen=True, slots=True)
class ItemTraits:
    """The growth of states that hold items: all values or the distinct ones, at most `max_count` of them.

    `combine` is the cost of combining one item, in additions, and `size` its bytes.
    """

    are_distinct: bool
    max_count: float
    combine: float
    size: float


@dataclass(frozen=True, slots=True)
class FoldCost:
    """Additions per row: for a row that meets an equal row in a small table, and for any other row."""

    repeated: float
    new: float

    def additions(self, repeats: float) -> float:
        """Return the expected additions per row when a fraction `repeats` of the rows meets an equal row."""
        return repeats * self.repeated + (1.0 - repeats) * self.new


@dataclass(frozen=True, slots=True)
class FoldChoice:
    """Two ways to count items: rows as they come, or equal rows put together first [UDAF 4.2]."""

    buffer: FoldCost
    compress: FoldCost

    def is_compressed(self, repeats: float) -> bool:
        """Return whether it pays to put equal rows together first."""
        return self.compress.additions(repeats) < self.buffer.additions(repeats)

    def additions(self, repeats: float) -> float:
        """Return the expected additions per row of the cheaper way."""
        return (self.compress if self.is_compressed(repeats) else self.buffer).additions(repeats)


@dataclass(frozen=True, slots=True)
class PartialKind:
    """A kind of partial, as the planner knows it: costs of folding a row and of combining two states, in additions.

    Two results are the same if they are equal (`exact`), differ by at most 1e-9 of the sum of magnitudes (`close`), or
    are each within `error` of the truth (`bounded`): of the rank for quantiles, of the value for buckets, of the number
    of distinct values, of the total weight for counters.

    A state of `default_size` is exact up to that many items; queries that ask for more accuracy get larger ones.
    """

    name: str
    fold: float | FoldChoice
    combine: float
    state_bytes: int
    equality: str = "exact"
    error: float = 0.0
    items: ItemTraits | None = None
    default_size: int = 0

    @property
    def fold_choice(self) -> FoldChoice | None:
        """The ways to fold rows, where there is a choice."""
        return self.fold if isinstance(self.fold, FoldChoice) else None


@dataclass(frozen=True, slots=True)
class Specification:
    """An aggregate that queries may name.

    `result_type` takes all written arguments and returns the type of the result, or raises ValueError. The arguments
    from `first_parameter` on are constants, which are no part of a partial. `wanted_size` maps these constants to the
    number of items that a state needs. `over_states` names the aggregate that stands for this one over stored states.
    """

    name: str
    result_type: Rule
    kinds: tuple[PartialKind, ...]
    synonyms: tuple[str, ...] = ()
    first_parameter: int | None = None
    takes_distinct: bool = True
    wanted_size: Callable[..., float] | None = None
    over_states: str | None = None
