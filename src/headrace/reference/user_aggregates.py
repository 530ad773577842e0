"""Aggregates of users, plainly: one state for each window and group, row by row, and no merge."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.model.expressions import Aggregate
from headrace.model.types import Value
from headrace.reference.functions import RowError, fit


def lower_user(declared: Any, aggregate: Aggregate, rows: list[tuple[Value, ...]]) -> Value:
    """The result over the rows that the class takes. RowError if its code raises."""
    made = declared.implementation
    taken = [row for row in rows if is_taken(made, row)]
    extractors = {each.name: each.method for each in declared.extractors}
    try:
        state = made.initialize()
        if declared.has_method("update"):
            for row in taken:
                state = made.update(state, *row)
        elif taken:
            state = made.update_batch(state, *(np.array(column) for column in zip(*taken, strict=True)))
        parameters = [parameter.value for parameter in aggregate.parameters]
        value = getattr(made, extractors.get(aggregate.function, "output"))(state, *parameters)
    except Exception as problem:  # a user's class may raise anything, and must not stop the other queries
        raise RowError(str(problem)) from problem
    return fit(value, aggregate.type)


def is_taken(made: Any, row: tuple[Value, ...]) -> bool:
    has_nan = any(isinstance(value, float) and math.isnan(value) for value in row)
    return (made.takes_null or None not in row) and (made.takes_nan or not has_nan)
