"""The cases that the laws are tried with: rows drawn from a seed, in three parts, shrunk where they break a law."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

from headrace.aggregates.user import DeclaredAggregate, UserAggregate
from headrace.aggregates.user_states import Failure, run_isolated
from headrace.model.address import MAPPED
from headrace.model.errors import UsageError
from headrace.model.types import DataType

if TYPE_CHECKING:
    from headrace.aggregates.law_trials import Trial, Violation

NEW_YEAR_US = 1_767_225_600_000_000
DRAWN_ROWS = 100
CASES = 60
LONG_CASES = 2
LONG_ROWS = 300
MAX_SHRINK_STEPS = 400
EXAMPLES = "give some rows that it takes: `examples = ((1.0,), (2.5,))`"
Row = tuple[Any, ...]
Rows = tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """Rows in three parts, each of which may be empty."""

    parts: tuple[Rows, Rows, Rows]

    @property
    def whole(self) -> Rows:
        return self.parts[0] + self.parts[1] + self.parts[2]

    def __str__(self) -> str:
        return " | ".join(", ".join(map(format_row, part)) or "none" for part in self.parts)


def format_row(row: Row) -> str:
    return repr(row[0] if len(row) == 1 else row)


# Random rows


def draw_row(aggregate: DeclaredAggregate, random: Random) -> Row:
    return tuple(
        draw_value(aggregate.first_level.implementation, data_type, random) for data_type in aggregate.arguments
    )


def draw_value(implementation: UserAggregate, data_type: DataType, random: Random) -> Any:
    if implementation.takes_null and random.random() < 0.1:
        return None
    if implementation.takes_nan and data_type.name == "DOUBLE" and random.random() < 0.1:
        return math.nan
    return DRAW[data_type.name](random, data_type)


def draw_double(random: Random, _type: DataType) -> float:
    """Draw a quarter, a price, or a number that sums must round."""
    candidates = (
        random.randint(-8, 40) / 4,
        round(random.uniform(0, 100), random.randint(1, 4)),
        random.uniform(-9, 99),
    )
    return random.choice(candidates)


def draw_decimal(random: Random, data_type: DataType) -> Decimal:
    largest = 10 ** min(data_type.precision, 6) - 1
    return Decimal(random.randint(-largest, largest)).scaleb(-data_type.scale)


DRAW: Mapping[str, Callable[[Random, DataType], Any]] = {
    "BOOLEAN": lambda random, _type: random.random() < 0.5,
    "BIGINT": lambda random, _type: random.choice((random.randint(-4, 12), random.randint(-9, 9_999))),
    "DOUBLE": draw_double,
    "DECIMAL": draw_decimal,
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
"""Values that replace those of a counter-example. Extractors are called with the last one."""


# Cases


def draw_cases(trial: Trial, random: Random) -> Iterator[Case]:
    """Yield cases of no rows to many, some of them several times, cut anywhere."""
    pool = [row for row in map(tuple, trial.implementation.examples) if is_accepted(trial, row)]
    drawn = [draw_row(trial.aggregate, random) for _ in range(DRAWN_ROWS)]
    pool += [row for row in drawn if is_accepted(trial, row)]
    if not pool:
        failure = run_isolated("update", trial.fold, drawn[:1])
        message = f"{trial.aggregate.name} takes none of {DRAWN_ROWS} rows"
        raise UsageError("udaf-law", message, detail=f"{format_row(drawn[0])}: {failure.message}", hint=EXAMPLES)
    for number in range(CASES + LONG_CASES):
        size = number // 5 if number < CASES else LONG_ROWS
        rows = tuple(random.choices(pool, k=size))
        first, second = sorted((random.randint(0, size), random.randint(0, size)))
        if number % 5 == 0:  # small ones are also cut evenly
            first, second = -(-size // 3), -(-2 * size // 3)
        yield Case((rows[:first], rows[first:second], rows[second:]))


def is_accepted(trial: Trial, row: Row) -> bool:
    """Return whether the aggregate takes the row. A row that it fails on fails its whole group, whatever the law."""
    return not isinstance(run_isolated("update", trial.fold, (row,)), Failure)


# Shrinking


def shrink_case(trial: Trial, case: Case, breaks: Callable[[Case], Violation | None]) -> Case:
    """Return a smaller case that still breaks the law: fewer rows, by halves and then one by one; then simpler ones."""
    items = [(part, row) for part in range(3) for row in case.parts[part]]
    steps = MAX_SHRINK_STEPS
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
            if steps and is_accepted(trial, simpler) and breaks(case_of(other)) is not None:
                items = other
                break
            steps = max(steps - 1, 0)
    return case_of(items)


def case_of(items: Sequence[tuple[int, Row]]) -> Case:
    first, second, third = (tuple(row for part, row in items if part == number) for number in range(3))
    return Case((first, second, third))


def simpler_rows(types: Sequence[DataType], row: Row) -> Iterator[Row]:
    """Yield the row with all values replaced by simple ones, then with one of them."""
    if len(row) > 1:
        yield tuple(SIMPLE[data_type.name][-1] for data_type in types)
    for place, data_type in enumerate(types):
        for value in SIMPLE[data_type.name]:
            yield (*row[:place], value, *row[place + 1 :])
