"""The laws that an aggregate must keep to be shared: they are tried when it is registered.

Rows are cut into slices, shipped, stored and combined as the plan sees fit. So the answer may depend on the rows alone:
not on their order, on how they were split, or on who merged whom. What breaks a law is made smaller before it is shown.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

import numpy as np

from headrace.aggregates.class_checks import declared
from headrace.aggregates.declarations import bound, parse_declarations
from headrace.aggregates.law_cases import cases, shrunk
from headrace.aggregates.law_rows import Case
from headrace.aggregates.law_trials import Trial, Violation, Way, answer, close, equal
from headrace.aggregates.user import DeclaredAggregate, UserAggregate
from headrace.aggregates.user_states import Failed, isolated
from headrace.model.errors import UsageError

SEED = 1


def user_aggregate(aggregate: type[UserAggregate] | UserAggregate, seed: int = SEED) -> DeclaredAggregate:
    """The aggregate as queries may use it; refused with a counter-example if it breaks a law."""
    checked = declared(aggregate)
    check_laws(checked, seed)
    return checked


def declare_aggregates(text: str, known: Mapping[str, Any]) -> tuple[DeclaredAggregate, ...]:
    """Aggregates declared as in [UDAF 3.2]; `known` are the classes and functions that the text names, or globals()."""
    classes = {name: each for name, each in known.items() if isinstance(each, type) and issubclass(each, UserAggregate)}
    functions = {name: each for name, each in known.items() if callable(each) and name not in classes}
    return tuple(user_aggregate(bound(each, classes, functions)) for each in parse_declarations(text))


@np.errstate(all="ignore")
def check_laws(aggregate: DeclaredAggregate, seed: int = SEED) -> None:
    """Law by law: the first that is broken tells most."""
    trial = Trial(aggregate)
    tried = tuple(cases(trial, Random(seed)))
    for law in LAWS:
        breaks = partial(violation, law, trial)
        found = next((case for case in tried if breaks(case) is not None), None)
        if found is not None:
            raise refusal(law, trial, shrunk(trial, found, breaks))


def violation(law: str, trial: Trial, case: Case) -> Violation | None:
    found = isolated("raised", LAWS[law], trial, case)
    return Violation(found.message) if isinstance(found, Failed) else found


def refusal(law: str, trial: Trial, case: Case) -> UsageError:
    found = violation(law, trial, case)
    assert found is not None
    hint = HINTS.get(law)
    if trial.made.equality == "exact" and found.by_rounding:
        hint = "they differ by rounding: declare `equality = 'close'`, or 'bounded' with an `error`"
    message = f"{trial.aggregate.name} breaks the law that {law}"
    return UsageError("udaf-law", message, detail=f"rows {case}: {found.text}", hint=hint)


# The laws, each of which finds nothing or what breaks it


def storage(trial: Trial, case: Case) -> Violation | None:
    form = trial.aggregate.form
    for state in (
        isolated("update", trial.fold, case.whole),
        isolated("merge", trial.merge_all, *case.parts),
        isolated("update", trial.by_levels, case.whole),
    ):
        (back,) = form.loaded(form.stored([state]))
        if isinstance(state, Failed):
            continue
        if isinstance(back, Failed):
            return Violation(f"{state!r} can't be stored: {back.message}")
        if type(back) is not type(state) or not equal(form.parts(back), form.parts(state)):
            return Violation(f"{state!r} comes back from storage as {back!r}")
    return None


def fresh(trial: Trial, case: Case) -> Violation | None:
    """Update may change the state it is given, so each must be another."""
    isolated("update", trial.fold, case.whole)
    now = trial.made.initialize()
    if equal(trial.aggregate.form.parts(trial.first), trial.aggregate.form.parts(now)):
        return None
    return Violation(f"initialize gave {trial.first!r} at first, and gives {now!r} after some updates")


def merge_only_reads(trial: Trial, case: Case) -> Violation | None:
    states = [isolated("update", trial.fold, part) for part in case.parts[:2]]
    if any(isinstance(state, Failed) for state in states):
        return None
    before = copy.deepcopy(states)
    isolated("merge", trial.made.merge, *states)
    return changed(trial, zip(("left", "right"), before, states, strict=True), "merge")


def output_only_reads(trial: Trial, case: Case) -> Violation | None:
    state = isolated("update", trial.fold, case.whole)
    if isinstance(state, Failed):
        return None
    before = copy.deepcopy(state)
    first = trial.told(state)
    found = changed(trial, [("state", before, state)], "output")
    second = trial.told(state)
    if found is None and not all(map(equal_answers, first, second)):
        return Violation(
            f"asked twice, it tells {', '.join(map(answer, first))}, then {', '.join(map(answer, second))}"
        )
    return found


def equal_answers(one: Any, two: Any) -> bool:
    return isinstance(two, Failed) if isinstance(one, Failed) else equal(one, two)


def changed(trial: Trial, states: Any, method: str) -> Violation | None:
    parts = trial.aggregate.form.parts
    for name, before, after in states:
        if not equal(parts(before), parts(after)):
            return Violation(f"{method} changes its {name} argument from {before!r} to {after!r}")
    return None


def gives_a_result(trial: Trial, case: Case) -> Violation | None:
    """Extractors may refuse the parameters that were made up here."""
    state = isolated("update", trial.fold, case.whole)
    found = state if isinstance(state, Failed) else trial.told(state)[0]
    return Violation(found.message) if isinstance(found, Failed) else None


def right(trial: Trial, case: Case) -> Violation | None:
    """All at once, and from parts."""
    if not trial.aggregate.offers("exact") or not case.whole:
        return None
    columns = [list(column) for column in zip(*case.whole, strict=True)]
    expected = trial.made.exact(*columns)
    for way, state in (("update", trial.fold(case.whole)), ("merge", trial.merge_all(*case.parts))):
        found = trial.told(state)[0]
        if trial.made.equality == "bounded":
            is_right = not isinstance(found, Failed) and trial.made.distance(found, *columns) <= trial.made.error
        else:
            is_right = trial.same(trial.results[0], found, expected, case.whole)
        if not is_right:
            return Violation(
                f"{way} gives {answer(found)}, the truth is {expected!r}", close(found, expected, case.whole)
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
        "merged with a new one": lambda trial, a, b, c: trial.merge(trial.fold(a + b + c), trial.made.initialize()),
        "a new one merged with it": lambda trial, a, b, c: trial.merge(trial.made.initialize(), trial.fold(a + b + c)),
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
    "a state survives storage": storage,
    "a new state is new": fresh,
    "merge only reads its arguments": merge_only_reads,
    "output only reads the state": output_only_reads,
    "there is a result of the declared type": gives_a_result,
    **{law: partial(Trial.compare, ways=ways) for law, ways in WAYS.items()},
    "the result is right": right,
}
HINTS: Mapping[str, str] = {
    "a state survives storage": "a field holds what it declares; an ARRAY is a list, or a NumPy array from the start",
    "there is a result of the declared type": "where there is none, as for no rows, give None",
    "parts merge to the whole": "a state must hold enough to merge: for a mean the sum and the count, not the mean",
    "a new state is new": "make it in initialize, not once for all",
}
