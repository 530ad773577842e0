"""What registration takes and what it refuses, and with which counter-example."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aggregates.class_checks import declare
from headrace.aggregates.law_cases import Case, draw_cases, shrink_case
from headrace.aggregates.law_trials import Trial, Violation, is_equal
from headrace.aggregates.laws import LAWS, find_violation, user_aggregate
from headrace.aggregates.user import UserAggregate
from headrace.model.errors import UsageError
from tests.aggregates.lawful import TAKEN, Names, WholeSum
from tests.aggregates.sums import State, Sum
from tests.aggregates.unlawful import REFUSED, Difference, ExactDoubles, Last, MeanOfMeans, NoReturn

# Taken


@pytest.mark.parametrize("aggregate", TAKEN)
def test_it_is_taken(aggregate: type[UserAggregate]) -> None:
    assert user_aggregate(aggregate).name == (aggregate.name or aggregate.__name__)


def test_an_object_with_parameters_is_taken() -> None:
    class Power(Sum):
        def __init__(self, exponent: int) -> None:
            self.exponent = exponent

        def update(self, state: State, value: float) -> State:
            return {"total": state["total"] + value**self.exponent}

    assert user_aggregate(Power(2)).implementation.update({"total": 1.0}, 3.0) == {"total": 10.0}


# Refused


def refusal(aggregate: type[UserAggregate]) -> UsageError:
    with pytest.raises(UsageError) as refused:
        user_aggregate(aggregate)
    assert refused.value.code == "udaf-law"
    return refused.value


@pytest.mark.parametrize(("aggregate", "law"), REFUSED.items())
def test_it_is_refused(aggregate: type[UserAggregate], law: str) -> None:
    error = refusal(aggregate)
    assert error.message.endswith(f"breaks the law that {law}")
    assert error.detail is not None
    assert error.detail.startswith("rows ")


def test_every_law_refuses_something() -> None:
    """What is not associative does not merge to the whole either, and two rows show that already."""
    assert LAWS.keys() - set(REFUSED.values()) == {"merge is associative"}
    violation = find_violation("merge is associative", Trial(declare(Difference)), Case((((1,),), ((2,),), ((3,),))))
    assert violation == Violation("merge(merge(a, b), c) gives 2, merge(a, merge(b, c)) gives 0")


def test_a_counter_example_is_small_and_shows_both_answers() -> None:
    error = refusal(MeanOfMeans)
    assert error.detail == (
        "rows 0.0 | 0.0 | 1.0: all rows at once gives 0.3333333333333333, merging the parts gives 0.5"
    )
    assert error.hint is not None
    assert "the sum and the count" in error.hint
    assert refusal(Last).detail == "rows 0.0 | 1.0 | none: this order gives 1.0, the reverse gives 0.0"
    assert str(refusal(Last)) == str(refusal(Last))


def test_rounding_is_told_from_mistakes() -> None:
    assert "equality = 'close'" in str(refusal(ExactDoubles))
    assert "equality = 'close'" not in str(refusal(Last))


def test_an_update_without_return_is_told() -> None:
    error = refusal(NoReturn)
    assert "takes none of" in error.message
    assert error.detail is not None
    assert "return it" in error.detail


def test_rows_that_it_takes_may_be_given() -> None:
    class Words(Names):
        def update(self, state: State, value: str) -> State:
            if value not in ("GET", "PUT"):
                raise ValueError(f"{value} is no method")
            return super().update(state, value)

    class Known(Words):
        examples: ClassVar[Sequence[Sequence[Any]]] = (("GET",), ("PUT",))

    error = refusal(Words)
    assert error.hint is not None
    assert "examples" in error.hint
    assert user_aggregate(Known).name == "Known"


def test_the_page_shows_what_happens() -> None:
    page = (Path(__file__).parents[2] / "docs" / "aggregates-user.md").read_text()
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(block, names)  # noqa: S102 - the page's own example
    assert f"```text\n{names['refusal']}\n```" in page
    laws = page.partition("| law | why |")[2].partition("**Why")[0]
    assert re.findall(r"^\| ([^|-]+) \|", laws, re.MULTILINE) == list(LAWS)


# The suite itself


def test_cases_grow_and_are_the_same_for_a_seed() -> None:
    trial = Trial(declare(Sum))
    first, second = (list(draw_cases(trial, Random(7))) for _ in range(2))
    sizes = [len(case.whole) for case in first]
    assert first == second
    assert sizes[0] == 0
    assert sizes == sorted(sizes)
    assert sizes[-1] == 300


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-50, 50)), min_size=1, max_size=40),
    st.integers(1, 60),
)
def test_what_is_shrunk_still_breaks_and_has_no_row_to_spare(items: list[tuple[int, int]], limit: int) -> None:
    def breaks(case: Case) -> Violation | None:
        return Violation("too much") if sum(abs(row[0]) for row in case.whole) >= limit else None

    first, second, third = (tuple((value,) for part, value in items if part == number) for number in range(3))
    case = Case((first, second, third))
    if breaks(case) is None:
        return
    smaller = shrink_case(Trial(declare(WholeSum)), case, breaks)
    assert breaks(smaller) is not None
    assert len(smaller.whole) <= len(case.whole)
    for number, part in enumerate(smaller.parts):
        for place in range(len(part)):
            parts = list(smaller.parts)
            parts[number] = part[:place] + part[place + 1 :]
            assert breaks(Case((parts[0], parts[1], parts[2]))) is None


def test_when_two_states_are_the_same() -> None:
    assert is_equal({"a": 1}, {"a": 1})
    assert is_equal((1.0, [math.nan]), (1, [np.float64(math.nan)]))
    assert is_equal(np.array([1, 2]), np.array([1, 2]))
    for one, two in (([1], (1,)), ([1], {1}), (1, True), ("1", 1), (np.array([1]), np.array([1.0])), ([1], [1, 2])):
        assert not is_equal(one, two)
