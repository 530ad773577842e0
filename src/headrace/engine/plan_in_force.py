"""The engine's plan: made from a sample of the first rows, kept in line with the registry, remade when sizes drift."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa

from headrace.expressions.static_tables import Data
from headrace.model.query import Query
from headrace.model.schema import Catalog, Stream
from headrace.planner.construction import make_plan
from headrace.planner.cost import Constants, Cost
from headrace.planner.demand import demand
from headrace.planner.drift import Drift, observe, replan, rest, watch
from headrace.planner.plan import Plan, wanted_node
from headrace.planner.plan_changes import add_query, drop_query
from headrace.planner.statistics import draw
from headrace.windows import Boundaries

MAX_CHANGES = 16
"""If more queries come and go at once, a new plan is made."""
SAMPLE_ROWS = 1_000_000
NO_BOUNDARIES = Boundaries(1 << 60, (0,))
THREAD = ThreadPoolExecutor(1, "headrace-planner")

Sampler = Callable[[], pa.Table]


class Planner:
    """Keeps the rows that plans are made for."""

    def __init__(
        self,
        catalog: Catalog,
        stream: Stream,
        plan: Plan | None,
        planned: Mapping[str, Query],
        constants: Constants | None = None,
    ) -> None:
        """A plan for other queries, left by an engine that stopped before it had rows for these, is of no use."""
        self.catalog = catalog
        self.stream = stream
        self.constants = constants or Constants()
        is_for_them = plan is not None and plan.demands == {name: demand(query) for name, query in planned.items()}
        self.plan = plan if is_for_them else None
        self.planned = planned
        self.rows: pa.Table | None = None
        self.drift: Drift | None = None
        self.making: Future[Plan] | None = None

    def plan_for(self, queries: Mapping[str, Query], tables: Mapping[str, pa.Table], sampled: Sampler) -> Plan | None:
        """A plan that answers exactly these queries; None without queries, or without a row to plan for."""
        if not queries:
            self.plan = None
            return None
        self.adopt()
        if self.plan is not None and self.drift is not None and self.drift.is_due and self.making is None:
            self.begin_replan(tables, sampled)
        if self.plan is not None and self.planned is queries:
            return self.plan
        demands = {name: demand(query) for name, query in queries.items()}
        if self.plan is not None and self.plan.demands == demands:
            self.planned = queries
            return self.plan
        cost = self.cost([*self.planned.values(), *queries.values()], tables, sampled)
        if cost is None:
            return None
        self.planned = queries
        known = self.plan.demands if self.plan is not None else {}
        gone = [name for name in known if demands.get(name) != known[name]]
        new = [name for name in demands if name not in known or name in gone]
        if self.plan is None or len(gone) + len(new) > MAX_CHANGES or len(gone) == len(known):
            self.plan = make_plan(demands, cost)
            return self.plan
        for name in gone:
            self.plan = drop_query(self.plan, name, cost)
        for name in new:
            self.plan = add_query(self.plan, name, demands[name], cost)
        return self.plan

    def forget(self) -> None:
        """Make the next plan without the one before."""
        self.plan, self.planned, self.making = None, {}, None

    def groups_of(self, query: Query, tables: Mapping[str, pa.Table]) -> float | None:
        """Estimate how many groups a query has in a batch; None without groups, or without rows to estimate from."""
        if not query.group_by or self.rows is None:
            return None
        wanted = demand(query)
        one_slice = replace(wanted_node(wanted, wanted.partials), boundaries=(NO_BOUNDARIES,))
        return draw(Data(self.catalog, self.stream, self.rows, tables), [query]).rows(one_slice)

    # Sizes drift

    def observe(self, rows: int, shipped: int) -> None:
        """What a step read, and what left level 1."""
        sizes = float(rows), float(shipped)
        self.drift = watch(sizes) if self.drift is None else observe(self.drift, sizes)

    def begin_replan(self, tables: Mapping[str, pa.Table], sampled: Sampler) -> None:
        """Make a plan for rows as they are now, beside the steps; the next one that finds it finished takes it."""
        assert self.plan is not None
        assert self.drift is not None
        self.rows = None
        self.drift = rest(self.drift)
        cost = self.cost(self.planned.values(), tables, sampled)
        if cost is not None:
            self.making = THREAD.submit(replan, self.plan, cost)

    def adopt(self) -> None:
        """Take the plan that was made meanwhile, if the queries are still the same."""
        if self.making is None or not self.making.done():
            return
        made, self.making = self.making.result(), None
        if self.plan is not None and made.demands == self.plan.demands:
            self.plan = made

    def cost(self, queries: Iterable[Query], tables: Mapping[str, pa.Table], sampled: Sampler) -> Cost | None:
        if self.rows is None:
            rows = sampled()
            timed = rows.num_rows - rows[self.stream.event_time].null_count
            if not timed:
                return None
            self.rows = rows
        return Cost(draw(Data(self.catalog, self.stream, self.rows, tables), queries), self.constants)
