"""An aggregate of one's own, used in SQL: python examples/udaf.py"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import headrace


@headrace.user_aggregate
class GeometricMean(headrace.UserAggregate):
    name, arguments, returns, equality = "geometric_mean", ("DOUBLE",), "DOUBLE", "close"
    state = {"logs": "DOUBLE", "rows": "BIGINT"}  # noqa: RUF012 - a declaration, never written to

    def initialize(self):
        return {"logs": 0.0, "rows": 0}

    def update_batch(self, state, values):
        return {"logs": state["logs"] + np.log(values).sum(), "rows": state["rows"] + len(values)}

    def merge(self, left, right):
        return {field: left[field] + right[field] for field in left}

    def output(self, state):
        return np.exp(state["logs"] / state["rows"]) if state["rows"] else None


times = pa.array([n * 1_000_000 for n in range(8)], pa.timestamp("us", "UTC"))
growth = pa.table({"time": times, "factor": [1.0, 2.0, 4.0, 8.0, 1.0, 1.0, 3.0, 9.0]})
query = "SELECT geometric_mean(factor) AS mean FROM stream [RANGE '4 s']"
print(headrace.aggregate(growth, {"growth": query}, functions=[GeometricMean])["growth"].to_pandas())
