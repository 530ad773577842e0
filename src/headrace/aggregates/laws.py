"""The laws that an aggregate must keep to be shared: they are tried when it is registered.

Rows are cut into slices, shipped, stored and combined as the plan sees fit. So the answer may depend on the rows alone:
not on their order, on how they were split, or on who merged whom. Rows are drawn from a seed, and what breaks a law is
made smaller before it is shown.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial, reduce
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.aggregates.declarations import bound, declared, parse_declarations
from headrace.aggregates.user import (
    DeclaredAggregate,
    Extractor,
    Failed,
    UserAggregate,
    arrow_values,
    isolated,
    lowered,
    there,
)
from headrace.model.address import MAPPED
from headrace.model.arrow import arrow_type
from headrace.model.errors import UsageError
from headrace.model.types import DataType

SEED = 1
DRAWN_ROWS = 100
CASES = 60
LONG_CASES = 2
LONG_ROWS = 300
SHRINKING_STEPS = 400
TOLERANCE = 1e-9
NEW_YEAR_US = 1_767_225_600_000_000
EXAMPLES = "give some rows that it takes: `examples = ((1.0,), (2.5,))`"
Row = tuple[Any, ...]
Rows = tuple[Row, ...]


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


@dataclass(frozen=True, slots=True)
class Case:
    """Rows in three parts, each of which may be empty."""

    parts: tuple[Rows, Rows, Rows]

    @property
    def whole(self) -> Rows:
        return self.parts[0] + self.parts[1] + self.parts[2]

    def __str__(self) -> str:
        return " | ".join(", ".join(map(shown, part)) or "none" for part in self.parts)


def shown(row: Row) -> str:
    return repr(row[0] if len(row) == 1 else row)


@dataclass(frozen=True, slots=True)
class Violation:
    text: str
    by_rounding: bool = False


Way = Callable[..., Any]
"""From a trial and the three parts of a case to a state."""
Answers = tuple[Any, ...]
"""What a state tells: its output and what each extractor gives, or a failure in the place of it."""


class Trial:
    """An aggregate on the bench."""

    def __init__(self, aggregate: DeclaredAggregate) -> None:
        self.aggregate = aggregate
        self.alone = replace(aggregate, low=None)
        self.made = aggregate.implementation
        self.first = copy.deepcopy(self.made.initialize())
        self.results = [aggregate.result(None), *aggregate.extractors]
        self.parameters = [tuple(SIMPLE[each.name][-1] for each in one.parameters) for one in self.results]

    def fold(self, rows: Sequence[Row], state: Any = None) -> Any:
        """Row by row where the class can, without its low level."""
        if self.aggregate.only_raises:
            return self.by_levels(rows) if state is None else self.merge(state, self.by_levels(rows))
        state = self.made.initialize() if state is None else state
        if not self.aggregate.offers("update"):
            return self.batch(rows, state)
        return there(reduce(lambda total, row: self.made.update(total, *row), rows, state))

    def batch(self, rows: Sequence[Row], state: Any) -> Any:
        if not rows:
            return state
        if not self.aggregate.offers("update_batch"):
            return self.fold(rows, state)
        return self.alone.updated(state, self.alone.columns(self.columns(rows)))

    def by_levels(self, rows: Sequence[Row]) -> Any:
        return self.aggregate.folded(self.aggregate.columns(self.columns(rows)))

    def columns(self, rows: Sequence[Row]) -> list[pa.Array]:
        types = enumerate(self.aggregate.arguments)
        return [arrow_values([row[place] for row in rows], arrow_type(each)) for place, each in types]

    def merge_all(self, *parts: Rows) -> Any:
        return reduce(self.merge, map(self.fold, parts))

    def merge_stored(self, *parts: Rows) -> Any:
        """As the engine does it."""
        column = self.aggregate.form.stored([self.fold(part) for part in parts])
        return reduce(self.merge, self.aggregate.form.loaded(column))

    def merge(self, left: Any, right: Any) -> Any:
        return there(self.made.merge(left, right))

    def told(self, state: Any) -> Answers:
        if isinstance(state, Failed):
            return (state,) * len(self.results)
        asked = zip(self.results, self.parameters, strict=True)
        return tuple(isolated(one.name, lowered, self.aggregate, one, state, given) for one, given in asked)

    def compare(self, case: Case, ways: Mapping[str, Way]) -> Violation | None:
        """All ways to a state must tell the same."""
        found = [(name, self.told(isolated("raised", way, self, *case.parts))) for name, way in ways.items()]
        (first_name, first), *others = found
        for name, answers in others:
            for result, one, two in zip(self.results, first, answers, strict=True):
                if not self.same(result, one, two, case.whole):
                    text = f"{first_name} gives {answer(one)}, {name} gives {answer(two)}"
                    prefix = "" if result.method == "output" else f"{result.name}: "
                    return Violation(prefix + text, close(one, two, case.whole))
        return None

    def same(self, result: Extractor, one: Any, two: Any, rows: Rows) -> bool:
        if isinstance(one, Failed) or isinstance(two, Failed):
            return isinstance(one, Failed) and isinstance(two, Failed)
        equality = self.made.equality
        if equality == "exact" or not (is_number(one) and is_number(two)):
            return equal(one, two)
        if equality == "close":
            return close(one, two, rows)
        if self.aggregate.offers("exact") and result.method == "output":
            return True  # each is held against the truth instead
        return equal(one, two) or abs(one - two) <= 2 * self.made.error * max(abs(one), abs(two))


def answer(value: Any) -> str:
    return value.message if isinstance(value, Failed) else repr(value)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def equal(one: Any, two: Any) -> bool:
    """By value, and but for numbers by type: a list that was a set when it was stored is another thing."""
    if isinstance(one, np.generic) or isinstance(two, np.generic):
        return equal(plain(one), plain(two))
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return one.dtype == two.dtype and bool(np.array_equal(one, two, equal_nan=one.dtype.kind == "f"))
    if is_number(one) and is_number(two):
        return bool(one == two) or (one != one and two != two)
    if type(one) is not type(two):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(equal, one, two))
    return bool(one == two)


def plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def close(one: Any, two: Any, rows: Rows) -> bool:
    """Within rounding of the sum of what was added up; whole numbers do not round."""
    if not (isinstance(one, float) and isinstance(two, float)) or equal(one, two):
        return equal(one, two)
    size = sum(math.prod(max(1.0, abs(float(value))) for value in row if is_number(value)) for row in rows)
    return abs(one - two) <= TOLERANCE * max(abs(one), abs(two), size)


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


# Rows to try


def cases(trial: Trial, random: Random) -> Iterator[Case]:
    """From none to many rows, some of them several times, cut anywhere."""
    pool = [row for row in map(tuple, trial.made.examples) if takes(trial, row)]
    drawn = [drawn_row(trial.aggregate, random) for _ in range(DRAWN_ROWS)]
    pool += [row for row in drawn if takes(trial, row)]
    if not pool:
        problem = isolated("update", trial.fold, drawn[:1])
        message = f"{trial.aggregate.name} takes none of {DRAWN_ROWS} rows"
        raise UsageError("udaf-law", message, detail=f"{shown(drawn[0])}: {answer(problem)}", hint=EXAMPLES)
    for number in range(CASES + LONG_CASES):
        size = number // 5 if number < CASES else LONG_ROWS
        rows = tuple(random.choices(pool, k=size))
        first, second = sorted((random.randint(0, size), random.randint(0, size)))
        if number % 5 == 0:  # small ones are also cut evenly
            first, second = -(-size // 3), -(-2 * size // 3)
        yield Case((rows[:first], rows[first:second], rows[second:]))


def takes(trial: Trial, row: Row) -> bool:
    """A row on which the aggregate fails has its failure as the result of any group it is in: no law speaks of it."""
    return not isinstance(isolated("update", trial.fold, (row,)), Failed)


def drawn_row(aggregate: DeclaredAggregate, random: Random) -> Row:
    return tuple(drawn_value(aggregate.first_level.implementation, each, random) for each in aggregate.arguments)


def drawn_value(made: UserAggregate, data_type: DataType, random: Random) -> Any:
    if made.takes_null and random.random() < 0.1:
        return None
    if made.takes_nan and data_type.name == "DOUBLE" and random.random() < 0.1:
        return math.nan
    return DRAWN[data_type.name](random, data_type)


def drawn_double(random: Random, _type: DataType) -> float:
    """Quarters, prices, and numbers that no sum of them rounds to."""
    kinds = (random.randint(-8, 40) / 4, round(random.uniform(0, 100), random.randint(1, 4)), random.uniform(-9, 99))
    return random.choice(kinds)


def drawn_decimal(random: Random, data_type: DataType) -> Decimal:
    most = 10 ** min(data_type.precision, 6) - 1
    return Decimal(random.randint(-most, most)).scaleb(-data_type.scale)


DRAWN: Mapping[str, Callable[[Random, DataType], Any]] = {
    "BOOLEAN": lambda random, _type: random.random() < 0.5,
    "BIGINT": lambda random, _type: random.choice((random.randint(-4, 12), random.randint(-9, 9_999))),
    "DOUBLE": drawn_double,
    "DECIMAL": drawn_decimal,
    "STRING": lambda random, _type: "".join(random.choices("abAB \u00e9", k=random.randint(0, 4))),
    "BINARY": lambda random, _type: random.randbytes(random.randint(0, 4)),
    "TIMESTAMP": lambda random, _type: NEW_YEAR_US + random.randrange(86_400_000_000),
    "ADDRESS": lambda random, _type: MAPPED | (10 << 24) + random.randrange(1_024),
}
SIMPLE: Mapping[str, Sequence[Any]] = {
    "BOOLEAN": (False, True),
    "BIGINT": (0, 2, 1),
    "DOUBLE": (0.0, 1.0, 2.0, 0.5),
    "DECIMAL": (Decimal(0), Decimal(1)),
    "STRING": ("", "a"),
    "BINARY": (b"", b"a"),
    "TIMESTAMP": (NEW_YEAR_US,),
    "ADDRESS": (MAPPED | (10 << 24),),
}
"""What a counter-example is made simpler with. The last is what extractors are asked with."""


# A smaller case that still breaks the law


def shrunk(trial: Trial, case: Case, breaks: Callable[[Case], Violation | None]) -> Case:
    """Fewer rows first, by halves and then one by one; then simpler ones."""
    items = [(part, row) for part in range(3) for row in case.parts[part]]
    steps = SHRINKING_STEPS
    size = len(items) // 2
    while size and steps:
        begin = 0
        while begin < len(items) and steps:
            steps -= 1
            smaller = items[:begin] + items[begin + size :]
            if breaks(case_of(smaller)) is not None:
                items = smaller
            else:
                begin += size
        size //= 2
    for place, (part, row) in enumerate(items):
        for simpler in simpler_rows(trial.aggregate.arguments, row):
            other = [*items[:place], (part, simpler), *items[place + 1 :]]
            if steps and takes(trial, simpler) and breaks(case_of(other)) is not None:
                items = other
                break
            steps = max(steps - 1, 0)
    return case_of(items)


def case_of(items: Sequence[tuple[int, Row]]) -> Case:
    first, second, third = (tuple(row for part, row in items if part == number) for number in range(3))
    return Case((first, second, third))


def simpler_rows(types: Sequence[DataType], row: Row) -> Iterator[Row]:
    """With all values simple, then with one of them."""
    if len(row) > 1:
        yield tuple(SIMPLE[each.name][-1] for each in types)
    for place, each in enumerate(types):
        for value in SIMPLE[each.name]:
            yield (*row[:place], value, *row[place + 1 :])
