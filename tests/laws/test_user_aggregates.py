"""The laws of user-defined aggregates, as users try them in tests of their own."""

from __future__ import annotations

import pytest

from headrace.aggregates.laws import user_aggregate
from headrace.aggregates.registry import USER_AGGREGATES
from headrace.aggregates.user import UserAggregate
from headrace.model.errors import UsageError
from headrace.testing import check_laws
from tests.aggregates.lawful import TAKEN, WholeSum
from tests.aggregates.sums import State
from tests.aggregates.unlawful import REFUSED, MeanOfMeans


class RarelyWrong(WholeSum):
    """Breaks a law only where a total is a multiple of 1,009: a registration meets no such rows."""

    def merge(self, left: State, right: State) -> State:
        total = left["total"] + right["total"]
        return {"total": total + (total != 0 and total % 1_009 == 0)}


@pytest.mark.parametrize("aggregate", TAKEN)
def test_lawful_aggregates_keep_the_laws_on_other_rows(aggregate: type[UserAggregate]) -> None:
    check_laws(aggregate, rounds=2, seed=5)


@pytest.mark.parametrize(("aggregate", "law"), REFUSED.items())
def test_the_error_is_that_of_a_registration(aggregate: type[UserAggregate], law: str) -> None:
    with pytest.raises(UsageError, match=f"breaks the law that {law}") as registration:
        user_aggregate(aggregate)
    with pytest.raises(UsageError) as trial:
        check_laws(aggregate, rounds=1)
    assert trial.value.message == registration.value.message
    assert trial.value.hint == registration.value.hint


def test_a_counter_example_is_shrunk() -> None:
    with pytest.raises(UsageError) as error:
        check_laws(MeanOfMeans, rounds=3, seed=99)
    assert error.value.code == "udaf-law"
    assert str(error.value.detail).startswith("rows 0.0 | ")
    assert len(str(error.value.detail).partition(":")[0].split("|")) == 3


def test_more_rounds_find_what_a_registration_does_not() -> None:
    declared = user_aggregate(RarelyWrong)
    check_laws(declared, rounds=1)
    with pytest.raises(UsageError, match="RarelyWrong breaks the law"):
        check_laws(declared, rounds=50)


def test_nothing_is_registered() -> None:
    before = dict(USER_AGGREGATES)
    check_laws(WholeSum(), rounds=1)
    assert before == USER_AGGREGATES


def test_there_is_at_least_one_round() -> None:
    with pytest.raises(UsageError, match="at least 1 round, not 0"):
        check_laws(WholeSum, rounds=0)


def test_a_class_that_is_incomplete_is_refused() -> None:
    with pytest.raises(UsageError, match="it has no initialize and no merge"):
        check_laws(UserAggregate)
