"""The cases that the laws are tried with: drawn from a seed, and shrunk where they break a law."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from headrace.aggregates.law_rows import SIMPLE, Case, Row, draw_row, format_row
from headrace.aggregates.law_trials import Trial, Violation, format_answer
from headrace.aggregates.user_states import Failure, run_isolated
from headrace.model.errors import UsageError
from headrace.model.types import DataType

DRAWN_ROWS = 100
CASES = 60
LONG_CASES = 2
LONG_ROWS = 300
MAX_SHRINK_STEPS = 400
EXAMPLES = "give some rows that it takes: `examples = ((1.0,), (2.5,))`"


def draw_cases(trial: Trial, random: Random) -> Iterator[Case]:
    """Yield cases of no rows to many, some of them several times, cut anywhere."""
    pool = [row for row in map(tuple, trial.implementation.examples) if is_accepted(trial, row)]
    drawn = [draw_row(trial.aggregate, random) for _ in range(DRAWN_ROWS)]
    pool += [row for row in drawn if is_accepted(trial, row)]
    if not pool:
        problem = format_answer(run_isolated("update", trial.fold, drawn[:1]))
        message = f"{trial.aggregate.name} takes none of {DRAWN_ROWS} rows"
        raise UsageError("udaf-law", message, detail=f"{format_row(drawn[0])}: {problem}", hint=EXAMPLES)
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
