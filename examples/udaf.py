"""An aggregate of one's own, tried by the laws and used as the engine uses it: python examples/udaf.py"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from headrace.aggregates.laws import register
from headrace.aggregates.user import UserAggregate
from headrace.kernel.states_user import UserState, lower


class GeometricMean(UserAggregate):
    name, arguments, returns, equality = "geometric_mean", ("DOUBLE",), "DOUBLE", "close"
    state = {"logs": "DOUBLE", "rows": "BIGINT"}  # noqa: RUF012 - a declaration, never written to

    def initialize(self):
        return {"logs": 0.0, "rows": 0}

    def update_batch(self, state, values):
        return {"logs": state["logs"] + np.log(values).sum(), "rows": state["rows"] + len(values)}

    def merge(self, left, right):
        return {field: left[field] + right[field] for field in left}

    def output(self, state):
        return math.exp(state["logs"] / state["rows"]) if state["rows"] else None


growth = UserState(register(GeometricMean))
slices = growth.lift(np.array([0, 0, 1, 1]), 2, pa.array([1.0, 2.0, 4.0, 8.0]))  # rows into two slices
windows = growth.combine(np.array([0, 0]), 1, slices)  # both slices into one window
print(lower(growth.aggregate, windows[0]).values)
