"""Requests to change the queries and tables of a stream: taken with the next step, or refused at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from headrace.engine.plan_in_force import Planner
from headrace.engine.quotas import Quotas
from headrace.engine.registry import (
    Registry,
    Request,
    apply_request,
    check_query,
    keep_registry,
    refusal,
    requests,
    with_queries,
    write_answers,
)
from headrace.engine.step.context import StreamSetting
from headrace.expressions.static_tables import Data
from headrace.kernel.level1.join import Joiner
from headrace.model.errors import HeadraceError, UsageError, nearest
from headrace.model.key_groups import KEY_GROUPS
from headrace.model.query import Query
from headrace.model.query_names import same_name
from headrace.storage.directory import Directory
from headrace.storage.garbage import forget_answers


class QueryCatalogue(Protocol):
    """The queries of a whole run, as far as they read each other's results."""

    def queries(self) -> Mapping[str, Query]:
        """Return all queries, by name."""

    def readers(self, name: str) -> Sequence[str]:
        """Return the queries that read the results of another."""


class NoQueries:
    """The catalogue of a stream whose results nobody reads."""

    def queries(self) -> Mapping[str, Query]:
        return {}

    def readers(self, name: str) -> Sequence[str]:
        return ()


class Changes:
    """What is asked for and not yet in a step. `sources` read the static tables, and `tables` names the version of each
    that steps read.
    """

    def __init__(
        self,
        setting: StreamSetting,
        planner: Planner,
        quotas: Quotas,
        tables: Mapping[str, str],
        sources: Mapping[str, Callable[[], pa.Table]],
        keep_table: Callable[[pa.Table], str],
        catalogue: QueryCatalogue,
        reducers: int,
    ) -> None:
        self.setting = setting
        self.planner = planner
        self.quotas = quotas
        self.tables = dict(tables)
        self.sources = sources
        self.keep_table = keep_table
        self.catalogue = catalogue
        self.reducers = reducers
        """How many the next step has."""
        self.first: dict[str, tuple[str, Query]] = {}

    @property
    def directory(self) -> Directory:
        return self.setting.directory

    def register(self, queries: Mapping[str, tuple[str, Query]]) -> None:
        """What is to be there from the next step on: new queries are added, others of the same name replaced."""
        self.first = dict(queries)

    def take(self, registry: Registry, state_bytes: int) -> tuple[Registry, list[Request]]:
        """The registry with the requests in the inbox, and those that were taken."""
        taken = []
        changed = with_queries(registry, self.first)
        if len(changed.queries) > self.quotas.queries:
            problem = f"there are {len(changed.queries)} queries, {self.quotas.queries} are allowed"
            raise UsageError("quota", problem, hint="raise the quota, or register fewer")
        waiting = requests(self.directory)
        if waiting:
            forget_answers(self.directory, time.time())
        for request in waiting:
            try:
                changed = self.with_request(changed, registry, request, state_bytes)
                taken.append(request)
            except HeadraceError as problem:
                write_answers(self.directory, [request.id], {request.id: refusal(problem)})
        if changed is not registry:
            changed = keep_registry(self.directory, replace(changed, version=registry.version))
        return changed, taken

    def with_request(self, changed: Registry, registry: Registry, request: Request, state_bytes: int) -> Registry:
        if request.action == "reload":
            tables = self.tables | {request.name: self.reload_table(request.name)}
            self.check_joins(changed.values.values(), tables)
            self.tables = tables
            return changed
        if request.action == "rescale":
            self.reducers = parse_reducers(request.name)
            return changed
        self.check_readers(registry, request)
        query = self.check_request(request)
        self.check_room(query, state_bytes)
        changed = apply_request(changed, request, query, self.quotas)
        self.check_joins([query] if query else [], self.tables)
        return changed

    def check_joins(self, queries: Iterable[Query], tables: Mapping[str, str]) -> None:
        """Whether the tables have each key once. Those of results are looked at when they are there."""
        known, catalog = self.rows_of(tables), self.setting.catalog
        joining = [query for query in queries if all(catalog.table(join.table) is not None for join in query.joins)]
        Joiner(Data(catalog, self.setting.declared, pa.table({}), known), joining)

    def read_tables(self) -> None:
        """Let the steps to come read the static tables as they are now."""
        self.tables = {name: self.keep_table(read()) for name, read in self.sources.items()}

    def reload_table(self, table: str) -> str:
        if table not in self.tables or table not in self.sources:
            raise UsageError("no-table", f"there is no table '{table}'", hint=nearest(table, self.tables))
        return self.keep_table(self.sources[table]())

    def check_request(self, request: Request) -> Query | None:
        """The query that is asked for; none is if one is to be dropped."""
        if request.action in ("drop", "resume"):
            return None
        return check_query(request.sql, self.setting.catalog, self.setting.stream, self.catalogue.queries())

    def check_readers(self, registry: Registry, request: Request) -> None:
        elsewhere = self.catalogue.queries().keys() - registry.queries.keys()
        if request.action == "add" and (known := same_name(request.name, elsewhere)) is not None:
            raise UsageError("query-exists", f"there is a query '{known}' already, over other rows")
        readers = self.catalogue.readers(request.name) if request.action in ("drop", "replace", "resume") else ()
        if readers:
            problem = f"{', '.join(readers)} reads the results of '{request.name}'"
            raise UsageError("query-read", problem, hint=f"drop {', '.join(readers)} first")

    def check_room(self, query: Query | None, state_bytes: int) -> None:
        """Whether there is room for one more query, by what is there and by what the sample says of its groups."""
        if query is None:
            return
        if state_bytes > self.quotas.state_bytes:
            raise UsageError("quota", f"the state has {state_bytes:,} bytes, {self.quotas.state_bytes:,} are allowed")
        groups = self.planner.groups_of(query, self.rows_of(self.tables))
        if groups is not None and groups > self.quotas.groups:
            problem = f"the query would have about {groups:,.0f} groups, {self.quotas.groups:,} are allowed"
            raise UsageError("quota", problem, hint="group by fewer or coarser expressions")

    def rows_of(self, tables: Mapping[str, str]) -> dict[str, pa.Table]:
        return {name: self.directory.table(version) for name, version in tables.items()}


def parse_reducers(text: str) -> int:
    """Return a number of reducers that is asked for."""
    if not text.isdigit() or not 1 <= int(text) <= KEY_GROUPS:
        raise UsageError("reducers", f"the number of reducers is between 1 and {KEY_GROUPS:,}, not {text}")
    return int(text)
