"""The laws of aggregates, tried outside of a registration."""

from __future__ import annotations

from headrace.aggregates import laws
from headrace.aggregates.class_checks import declare
from headrace.aggregates.user import DeclaredAggregate, UserAggregate
from headrace.model.errors import UsageError

ROUNDS = 10


def check_laws(
    aggregate: type[UserAggregate] | UserAggregate | DeclaredAggregate, *, rounds: int = ROUNDS, seed: int = laws.SEED
) -> None:
    """Try the laws that an aggregate must keep to be shared, on more rows than its registration does.

    Nothing is registered. The same seed tries the same rows; the first round of the default seed is the registration's.

    Args:
        aggregate: The class, an object of it that was made with parameters, or what `user_aggregate` returned.
        rounds: How many times the cases of a registration, about sixty, are drawn.
        seed: Decides which rows are tried.

    Raises:
        UsageError: The class is incomplete (code `udaf`), or breaks a law (code `udaf-law`). The detail is the smallest
            counter-example that was found.

    Example:
        >>> from headrace import UserAggregate
        >>> from headrace.testing import check_laws
        >>> class Total(UserAggregate):
        ...     arguments, returns, state = ("BIGINT",), "BIGINT", {"total": "BIGINT"}
        ...     def initialize(self):
        ...         return {"total": 0}
        ...     def update(self, state, value):
        ...         return {"total": state["total"] + value}
        ...     def merge(self, left, right):
        ...         return {"total": left["total"] + right["total"]}
        ...     def output(self, state):
        ...         return state["total"]
        >>> check_laws(Total)
        >>> class First(Total):
        ...     def merge(self, left, right):
        ...         return left if left["total"] else right
        >>> check_laws(First, rounds=2, seed=7)
        Traceback (most recent call last):
        headrace.model.errors.UsageError: error[udaf-law]: First breaks the law that merge is commutative
          = rows 2 | 1 | none: merge(a, b + c) gives 2, merge(b + c, a) gives 1
    """
    if rounds < 1:
        raise UsageError("rounds", f"the laws are tried in at least 1 round, not {rounds}")
    laws.check_laws(aggregate if isinstance(aggregate, DeclaredAggregate) else declare(aggregate), seed, rounds)
