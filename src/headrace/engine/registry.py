"""Which queries are registered, in versions; and requests to change them, from other processes.

A request is a file in the inbox. The engine takes it with its next step and answers in the outbox when that step is
committed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any
from uuid import uuid4

from msgspec.structs import asdict

from headrace.engine.quotas import Quotas
from headrace.model.errors import HeadraceError, QueryError, UsageError, nearest
from headrace.model.query import Query
from headrace.model.query_names import check_query_name, same_name
from headrace.model.record import Count, Record
from headrace.model.schema import Catalog
from headrace.planner.codec import decode, encode, find_renamed
from headrace.sql import format_query, parse_next
from headrace.storage.directory import Directory
from headrace.storage.disk import DamagedError, to_record
from headrace.storage.store import find_stored, open_store, place_of, read_stored

LOG = logging.getLogger(__name__)
MAX_NAME = 64
POLL_S = 0.02
pause = time.sleep


@dataclass(frozen=True, slots=True)
class RegisteredQuery:
    """A query added again under an old name is of a new generation. `quarantine` is why it is not answered; windows
    that end by `closed_us` had been when that began.
    """

    sql: str
    generation: int
    query: Query
    quarantine: str | None = None
    closed_us: int | None = None


@dataclass(frozen=True)
class Registry:
    version: int = 0
    next_generation: int = 1
    queries: Mapping[str, RegisteredQuery] = field(default_factory=dict)

    @cached_property
    def values(self) -> Mapping[str, Query]:
        return {name: known.query for name, known in self.queries.items()}

    @cached_property
    def active(self) -> Mapping[str, Query]:
        """Those that are answered: not in quarantine."""
        return {name: known.query for name, known in self.queries.items() if known.quarantine is None}


class StoredQuery(Record, frozen=True):
    """A registered query as it is stored: its value is among the values of its registry."""

    sql: str
    generation: Count
    quarantine: str | None = None
    closed_us: int | None = None


class StoredRegistry(Record, frozen=True):
    version: Count
    next_generation: Count
    queries: Mapping[str, StoredQuery]
    values: str


class Request(Record, frozen=True):
    """`action` is add, drop, replace, resume, reload or rescale."""

    id: str
    action: str
    name: str
    sql: str = ""


def with_query(registry: Registry, name: str, sql: str, query: Query) -> Registry:
    registered = RegisteredQuery(sql, registry.next_generation, query)
    return Registry(registry.version, registry.next_generation + 1, {**registry.queries, name: registered})


def with_queries(registry: Registry, queries: Mapping[str, tuple[str, Query]]) -> Registry:
    """With these queries; those that are there as they are stay what they are, under the name that they have."""
    for written, (sql, query) in queries.items():
        name = same_name(written, registry.queries) or written
        known = registry.queries.get(name)
        if known is None or known.query != query:
            registry = with_query(registry, name, sql, query)
    return registry


def without_query(registry: Registry, name: str) -> Registry:
    if name not in registry.queries:
        raise UsageError("no-query", f"there is no query '{name}'", hint=nearest(name, registry.queries))
    left = {other: known for other, known in registry.queries.items() if other != name}
    return replace(registry, queries=left)


def apply_request(registry: Registry, request: Request, query: Query | None, quotas: Quotas) -> Registry:
    """The registry after a request for a query, or to drop one; what can't be done is an error."""
    if request.action == "resume":
        return resume_query(registry, request.name)
    if query is None:
        return without_query(registry, request.name)
    if request.action == "replace":
        registry = without_query(registry, request.name)
    elif (known := same_name(request.name, registry.queries)) is not None:
        hint = "headrace queries replace changes it; drop it first to start over"
        raise UsageError("query-exists", f"there is a query '{known}' already", hint=hint)
    check_query_name(request.name)
    if len(registry.queries) >= quotas.queries:
        raise UsageError("quota", f"there are {quotas.queries} queries, as many as are allowed")
    return with_query(registry, request.name, request.sql, query)


def resume_query(registry: Registry, name: str) -> Registry:
    """The registry with a query out of quarantine: it joins again, as a new generation."""
    left = without_query(registry, name)
    known = registry.queries[name]
    if known.quarantine is None:
        raise UsageError("not-quarantined", f"the query '{name}' is not in quarantine")
    return with_query(left, name, known.sql, known.query)


def check_query(sql: str, catalog: Catalog, stream: str, readable: Mapping[str, Query]) -> Query:
    _, query = parse_next(sql, catalog, readable)
    if query.stream != stream:
        raise QueryError("other-stream", f"the query is over {query.stream}, and this engine reads {stream}")
    return query


def check_stream_name(name: str) -> None:
    """Its state is in a folder of this name."""
    if not 0 < len(name) <= MAX_NAME or not name.replace("_", "a").replace("-", "a").isalnum() or not name.isascii():
        hint = f"letters, digits, _ and -, at most {MAX_NAME}"
        raise UsageError("stream-name", f"'{name}' can't be the name of a stream with a state", hint=hint)


# On disk


def keep_registry(directory: Directory, registry: Registry) -> Registry:
    """Store a registry under the next version that no engine has written: a name is never used again."""
    queries = {
        name: StoredQuery(known.sql, known.generation, known.quarantine, known.closed_us)
        for name, known in registry.queries.items()
    }
    values, version = encode(registry.values), registry.version + 1
    while not directory.store.create(
        registry_name(version), to_record(StoredRegistry(version, registry.next_generation, queries, values))
    ):
        version += 1
    return replace(registry, version=version)


def registry_name(version: int) -> str:
    return f"registry/{version:09}.json"


def read_registry(directory: Directory, version: int) -> Registry:
    return known_registry(directory.store.location, directory.id, version) if version else Registry()


@lru_cache(maxsize=16)
def known_registry(location: str, _id: str, version: int) -> Registry:
    store = open_store(location)
    stored = read_stored(store, registry_name(version), StoredRegistry)
    if stored.version != version:
        raise DamagedError(place_of(store, registry_name(version)), f"is version {stored.version} of the registry")
    values = decode(stored.values)
    queries = {name: RegisteredQuery(**asdict(known), query=values[name]) for name, known in stored.queries.items()}
    for name in find_renamed(stored.values, values) & queries.keys():
        queries[name] = replace(queries[name], sql=format_query(values[name]))
    return Registry(version, stored.next_generation, queries)


# Requests


def ask(directory: Directory, action: str, name: str, sql: str = "") -> str:
    """Leave a request; its id is how the answer is found."""
    made = Request(f"{time.time_ns():020}-{uuid4().hex[:8]}", action, name, sql)
    directory.store.put(f"inbox/{made.id}.json", to_record(made))
    return made.id


def requests(directory: Directory) -> list[Request]:
    """Those that wait, oldest first. One that is damaged is put aside, and refused."""
    waiting = []
    store = directory.store
    for name in (entry.name for entry in store.list("inbox") if entry.name.endswith(".json")):
        try:
            request = find_stored(store, name, Request)
            waiting += [request] if request is not None else []  # else its sender took it back
        except DamagedError:
            aside = f"{name.removesuffix('.json')}.damaged"
            LOG.warning("a damaged request was put aside: %s", directory.place(aside))
            store.put(aside, store.get(name))
            id = name.removeprefix("inbox/").removesuffix(".json")
            problem = UsageError("damaged-request", f"the request {id} is damaged", hint="ask again")
            write_answers(directory, [id], {id: refusal(problem)})
    return waiting


def write_answers(directory: Directory, ids: Iterable[str], answers: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the answers, then take the requests away: after a crash in between they are answered again."""
    for id in ids:
        directory.store.put(f"outbox/{id}.json", to_record(dict(answers.get(id, {}))))
        directory.store.delete([f"inbox/{id}.json"])


def answer_to(directory: Directory, id: str) -> dict[str, Any] | None:
    name = f"outbox/{id}.json"
    answer: dict[str, Any] | None = find_stored(directory.store, name, dict[str, Any])
    if answer is not None:
        directory.store.delete([name])
    return answer


def wait_for_answer(
    directory: Directory, id: str, wait_s: float, may_come: Callable[[], bool] = lambda: True
) -> dict[str, Any] | None:
    """Return the answer to a request, or None if none comes in time or may come any more. Raise a refusal as an error.

    `may_come` is asked before each look, since the answer may be there when what would have written it has ended.
    """
    until = time.monotonic() + wait_s
    while True:
        is_last = not may_come() or time.monotonic() >= until
        answer = answer_to(directory, id)
        if answer is not None and "refused" in answer:
            raise UsageError(answer["code"], answer["message"], detail=answer.get("detail"), hint=answer.get("hint"))
        if answer is not None or is_last:
            return answer
        pause(POLL_S)


def refusal(problem: HeadraceError) -> dict[str, Any]:
    fields = {"code": problem.code, "message": problem.message, "detail": problem.detail, "hint": problem.hint}
    return {"refused": True, **fields}
