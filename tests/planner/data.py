"""Queries and rows for the planner's tests: a small stream with everything in it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.datasets import workload
from headrace.expressions.static_tables import Data
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import Demand, demand
from headrace.planner.statistics import draw
from headrace.sql import Script, parse_script

STREAM = "CREATE STREAM S (t TIMESTAMP, a BIGINT, b BIGINT, c BIGINT, d DOUBLE) EVENT TIME t;\n"


def script_of(*queries: str) -> Script:
    return parse_script(STREAM + ";\n".join(queries))


def demands_of(script: Script) -> dict[str, Demand]:
    return {named.name: demand(named.query) for named in script.queries}


def stream_data(script: Script, rows: int = 4_000, seed: int = 1, spread: int = 100) -> Data:
    """`spread` is the number of distinct values of a, b and c."""
    rng = np.random.default_rng(seed)
    columns = {
        "t": pa.array(np.sort(rng.integers(0, 60_000_000, rows))).cast(pa.timestamp("us", tz="UTC")),
        "a": pa.array(rng.integers(0, 10, rows)),
        "b": pa.array(rng.integers(0, spread, rows)),
        "c": pa.array(rng.integers(0, spread, rows)),
        "d": pa.array(rng.random(rows) * 4),
    }
    return Data(script.catalog, script.catalog.streams[0], pa.table(columns), {})


def cost_of(script: Script, data: Data | None = None, constants: Constants | None = None) -> Cost:
    known = data or stream_data(script)
    return Cost(draw(known, [named.query for named in script.queries]), constants or Constants())


def workload_script(name: str, queries: int, seed: int = 7) -> Script:
    return parse_script(workload(name, queries, seed))
