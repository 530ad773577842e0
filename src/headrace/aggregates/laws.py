"""The laws that an aggregate must keep to be shared. They are tried when it is registered.

Rows are cut into slices, shipped, stored and combined as the plan sees fit. So the answer may depend on the rows alone:
not on their order, on how they were split, or on what was merged with what. A case that breaks a law is shrunk before
it is shown.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

import numpy as np

from headrace.aggregates.class_checks import declare
from headrace.aggregates.declarations import bind_classes, parse_declarations
from headrace.aggregates.law_cases import Case, draw_cases, shrink_case
from headrace.aggregates.law_trials import Trial, Violation, Way, format_answer, is_close, is_equal
from headrace.aggregates.user import DeclaredAggregate, UserAggregate
from headrace.aggregates.user_states import Failure, run_isolated
from headrace.model.errors import UsageError

SEED = 1


def user_aggregate(aggregate: type[UserAggregate] | UserAggregate, seed: int = SEED) -> DeclaredAggregate:
    """Return the aggregate as queries may use it; refuse it with a counter-example if it breaks a law."""
    declaration = declare(aggregate)
    check_laws(declaration, seed)
    return declaration


def declare_aggregates(text: str, known: Mapping[str, Any]) -> tuple[DeclaredAggregate, ...]:
    """Return the aggregates that a text declares as in [UDAF 3.2].

    `known` has the classes and functions that the text names; `globals()` will do.
    """
    classes = {
        name: value for name, value in known.items() if isinstance(value, type) and issubclass(value, UserAggregate)
    }
    functions = {name: value for name, value in known.items() if callable(value) and name not in classes}
    declarations = parse_declarations(text)
    return tuple(user_aggregate(bind_classes(declaration, classes, functions)) for declaration in declarations)


@np.errstate(all="ignore")
def check_laws(aggregate: DeclaredAggregate, seed: int = SEED, rounds: int = 1) -> None:
    """Try law by law, since the first that is broken explains most. Each round draws cases from the next seed."""
    trial = Trial(aggregate)
    cases = [case for number in range(rounds) for case in draw_cases(trial, Random(seed + number))]
    for law in LAWS:
        breaks = partial(find_violation, law, trial)
        broken = next((case for case in cases if breaks(case) is not None), None)
        if broken is not None:
            raise build_error(law, trial, shrink_case(trial, broken, breaks))


def find_violation(law: str, trial: Trial, case: Case) -> Violation | None:
    violation = run_isolated("raised", LAWS[law], trial, case)
    return Violation(violation.message) if isinstance(violation, Failure) else violation


def build_error(law: str, trial: Trial, case: Case) -> UsageError:
    violation = find_violation(law, trial, case)
    assert violation is not None
    hint = HINTS.get(law)
    if trial.implementation.equality == "exact" and violation.by_rounding:
        hint = "they differ by rounding: declare `equality = 'close'`, or 'bounded' with an `error`"
    message = f"{trial.aggregate.name} breaks the law that {law}"
    return UsageError("udaf-law", message, detail=f"rows {case}: {violation.text}", hint=hint)


# The laws: each returns None, or what breaks it


def check_storage(trial: Trial, case: Case) -> Violation | None:
    form = trial.aggregate.form
    for state in (
        run_isolated("update", trial.fold, case.whole),
        run_isolated("merge", trial.merge_all, *case.parts),
        run_isolated("update", trial.by_levels, case.whole),
    ):
        (back,) = form.from_arrow(form.to_arrow([state]))
        if isinstance(state, Failure):
            continue
        if isinstance(back, Failure):
            return Violation(f"{state!r} can't be stored: {back.message}")
        if type(back) is not type(state) or not is_equal(form.parts(back), form.parts(state)):
            return Violation(f"{state!r} comes back from storage as {back!r}")
    return None


def check_new_state(trial: Trial, case: Case) -> Violation | None:
    """Require a different state from each `initialize`: update may change the one it is given."""
    run_isolated("update", trial.fold, case.whole)
    second = trial.implementation.initialize()
    if is_equal(trial.aggregate.form.parts(trial.first), trial.aggregate.form.parts(second)):
        return None
    return Violation(f"initialize gave {trial.first!r} at first, and gives {second!r} after some updates")


def check_merge_only_reads(trial: Trial, case: Case) -> Violation | None:
    states = [run_isolated("update", trial.fold, part) for part in case.parts[:2]]
    if any(isinstance(state, Failure) for state in states):
        return None
    before = copy.deepcopy(states)
    run_isolated("merge", trial.implementation.merge, *states)
    return find_change(trial, zip(("left", "right"), before, states, strict=True), "merge")


def check_output_only_reads(trial: Trial, case: Case) -> Violation | None:
    state = run_isolated("update", trial.fold, case.whole)
    if isinstance(state, Failure):
        return None
    before = copy.deepcopy(state)
    first = trial.read_results(state)
    violation = find_change(trial, [("state", before, state)], "output")
    second = trial.read_results(state)
    if violation is None and not all(map(equal_answers, first, second)):
        answers = [", ".join(map(format_answer, results)) for results in (first, second)]
        return Violation(f"asked twice, it returns {answers[0]}, then {answers[1]}")
    return violation


def equal_answers(one: Any, two: Any) -> bool:
    return isinstance(two, Failure) if isinstance(one, Failure) else is_equal(one, two)


def find_change(trial: Trial, states: Any, method: str) -> Violation | None:
    parts = trial.aggregate.form.parts
    for name, before, after in states:
        if not is_equal(parts(before), parts(after)):
            return Violation(f"{method} changes its {name} argument from {before!r} to {after!r}")
    return None


def check_result_type(trial: Trial, case: Case) -> Violation | None:
    """Require a result of the declared type. Extractors may refuse the parameters that were made up here."""
    state = run_isolated("update", trial.fold, case.whole)
    result = state if isinstance(state, Failure) else trial.read_results(state)[0]
    return Violation(result.message) if isinstance(result, Failure) else None


def check_result(trial: Trial, case: Case) -> Violation | None:
    """Compare the result with the truth: of all rows at once, and of merged parts."""
    if not trial.aggregate.has_method("exact") or not case.whole:
        return None
    columns = [list(column) for column in zip(*case.whole, strict=True)]
    expected = trial.implementation.exact(*columns)
    for way, state in (("update", trial.fold(case.whole)), ("merge", trial.merge_all(*case.parts))):
        result = trial.read_results(state)[0]
        if trial.implementation.equality == "bounded":
            is_right = (
                not isinstance(result, Failure)
                and trial.implementation.distance(result, *columns) <= trial.implementation.error
            )
        else:
            is_right = trial.same(trial.results[0], result, expected, case.whole)
        if not is_right:
            return Violation(
                f"{way} gives {format_answer(result)}, the truth is {expected!r}",
                is_close(result, expected, case.whole),
            )
    return None


WAYS: Mapping[str, Mapping[str, Way]] = {
    "the order of rows does not matter": {
        "this order": lambda trial, a, b, c: trial.fold(a + b + c),
        "the reverse": lambda trial, a, b, c: trial.fold((a + b + c)[::-1]),
        "another": lambda trial, a, b, c: trial.fold(sorted(a + b + c, key=repr)),
    },
    "update_batch does what update does": {
        "update": lambda trial, a, b, c: trial.fold(a + b + c),
        "update_batch": lambda trial, a, b, c: trial.batch(b + c, trial.fold(a)),
    },
    "a new state is neutral": {
        "a state alone": lambda trial, a, b, c: trial.fold(a + b + c),
        "merged with a new one": lambda trial, a, b, c: trial.merge(
            trial.fold(a + b + c), trial.implementation.initialize()
        ),
        "a new one merged with it": lambda trial, a, b, c: trial.merge(
            trial.implementation.initialize(), trial.fold(a + b + c)
        ),
    },
    "merge is commutative": {
        "merge(a, b + c)": lambda trial, a, b, c: trial.merge_all(a, b + c),
        "merge(b + c, a)": lambda trial, a, b, c: trial.merge_all(b + c, a),
    },
    "parts merge to the whole": {
        "all rows at once": lambda trial, a, b, c: trial.fold(a + b + c),
        "merging the parts": lambda trial, a, b, c: trial.merge_all(a, b, c),
        "merging them from storage": lambda trial, a, b, c: trial.merge_stored(a, b, c),
        "merging two and going on": lambda trial, a, b, c: trial.fold(c, trial.merge_all(a, b)),
    },
    "merge is associative": {
        "merge(merge(a, b), c)": lambda trial, a, b, c: trial.merge_all(a, b, c),
        "merge(a, merge(b, c))": lambda trial, a, b, c: trial.merge(trial.fold(a), trial.merge_all(b, c)),
    },
    "the low level loses nothing": {
        "this level alone": lambda trial, a, b, c: trial.fold(a + b + c),
        "through the low level": lambda trial, a, b, c: trial.by_levels(a + b + c),
    },
}
LAWS: Mapping[str, Callable[[Trial, Case], Violation | None]] = {
    "a state survives storage": check_storage,
    "a new state is new": check_new_state,
    "merge only reads its arguments": check_merge_only_reads,
    "output only reads the state": check_output_only_reads,
    "there is a result of the declared type": check_result_type,
    **{law: partial(Trial.compare, ways=ways) for law, ways in WAYS.items()},
    "the result is right": check_result,
}
HINTS: Mapping[str, str] = {
    "a state survives storage": "a field holds what it declares; an ARRAY is a list, or a NumPy array from the start",
    "there is a result of the declared type": "where there is none, as for no rows, give None",
    "parts merge to the whole": "a state must hold enough to merge: for a mean the sum and the count, not the mean",
    "a new state is new": "make it in initialize, not once for all",
}
