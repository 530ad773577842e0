"""Random planning problems: a few queries over a stream of five attributes, and rows for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.expressions.static_tables import Data
from headrace.planner.cost import Cost
from headrace.planner.demand import Demand, demand
from headrace.planner.sample import draw
from headrace.sql import Script, parse_script

ATTRIBUTES = ("a", "b", "c", "d", "e")
STREAM = f"CREATE STREAM S (t TIMESTAMP, {', '.join(f'{name} BIGINT' for name in ATTRIBUTES)}) EVENT TIME t;\n"
AGGREGATES = ("count(*)", "sum(e)", "count(*), sum(e)", "avg(d), max(e)")
SPAN_US = 600_000_000


@dataclass(frozen=True)
class Instance:
    demands: dict[str, Demand]
    cost: Cost


def random_instance(seed: int, most_queries: int, rows: int = 2_000) -> Instance:
    """Two or more different queries; attributes have domains of 3 to 1,000 values, some of them skewed."""
    rng = np.random.default_rng(seed)
    domains = {name: int(10 ** rng.uniform(0.5, 3)) for name in ATTRIBUTES}
    texts = [random_query(rng, domains) for _ in range(int(rng.integers(2, most_queries + 1)))]
    script = parse_script(STREAM + ";\n".join(dict.fromkeys(texts)))
    demands = {named.name: demand(named.query) for named in script.queries}
    return Instance(demands, Cost(draw(random_rows(rng, script, domains, rows), [q.query for q in script.queries])))


def random_query(rng: np.random.Generator, domains: dict[str, int]) -> str:
    groups = [name for name in ATTRIBUTES if rng.random() < 0.45]
    slide_s = int(rng.integers(10, 300))
    range_s = slide_s + int(rng.integers(0, 2)) * int(rng.integers(0, 300))
    filtered = ATTRIBUTES[int(rng.integers(len(ATTRIBUTES)))]
    where = f" WHERE {filtered} < {int(rng.integers(1, domains[filtered] + 1))}" if rng.random() < 0.5 else ""
    select = ", ".join([*groups, AGGREGATES[int(rng.integers(len(AGGREGATES)))]])
    group_by = f" GROUP BY {', '.join(groups)}" if groups else ""
    return f"SELECT {select} FROM S [RANGE {range_s} SLIDE {slide_s}]{where}{group_by}"


def random_rows(rng: np.random.Generator, script: Script, domains: dict[str, int], rows: int) -> Data:
    columns = {"t": pa.array(np.sort(rng.integers(0, SPAN_US, rows))).cast(pa.timestamp("us", tz="UTC"))}
    for name, size in domains.items():
        skew = rng.uniform(1, 3)
        columns[name] = pa.array((size * rng.random(rows) ** skew).astype(np.int64))
    return Data(script.catalog, script.catalog.streams[0], pa.table(columns), {})
