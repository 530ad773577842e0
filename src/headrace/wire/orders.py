"""Orders: what the root asks of its edges, as a text that they poll for. Without a plan rows are sent as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from headrace.model.errors import DataError, HeadraceError
from headrace.model.query import Query
from headrace.model.record import Record
from headrace.planner.codec import decode, digest_of, encode
from headrace.planner.plan import Plan
from headrace.wire.frames import Name

VERSION = 1
SAME_VERSION = "run the same version at the edge and at the root"
Wanted = TypeVar("Wanted")


@dataclass(frozen=True)
class Orders:
    """Of one stream. `tables` are the static tables to join, by the digests of their bytes. `wants_rows`: there is no
    plan because rows are wanted as they are, and none will come.
    """

    stream: str
    plan: Plan | None = None
    queries: Mapping[str, Query] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    wants_rows: bool = False

    @property
    def plan_id(self) -> str | None:
        return None if self.plan is None else digest_of(encode(self.plan))


class OrdersText(Record, frozen=True):
    """Orders as they are sent: plan and queries as texts of the codec."""

    version: int
    stream: str
    plan: str | None
    queries: Mapping[str, str]
    tables: Mapping[str, Name]
    wants_rows: bool


def to_text(orders: Orders) -> str:
    document = OrdersText(
        VERSION,
        orders.stream,
        None if orders.plan is None else encode(orders.plan),
        {name: encode(query) for name, query in orders.queries.items()},
        orders.tables,
        orders.wants_rows,
    )
    return json.dumps(msgspec.to_builtins(document))


@contextmanager
def refusing(problem: str) -> Iterator[None]:
    """Whatever orders do to those who read them is an error of the orders."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as cause:
        raise DataError("orders", problem, detail=f"{type(cause).__name__}: {cause}", hint=SAME_VERSION) from cause


def from_text(text: str) -> Orders:
    with refusing("these are no orders for an edge"):
        document = json.loads(text)
        if document["version"] != VERSION:
            problem = f"these orders have version {document['version']}, this program reads {VERSION}"
            raise DataError("orders", problem, hint=SAME_VERSION)
        sent = msgspec.convert(document, OrdersText)
        plan = None if sent.plan is None else decode_value(sent.plan, Plan)
        queries = {name: decode_value(query, Query) for name, query in sent.queries.items()}
        return Orders(sent.stream, plan, queries, sent.tables, sent.wants_rows)


def decode_value(text: str, wanted: type[Wanted]) -> Wanted:
    value = decode(text)
    if not isinstance(value, wanted):
        raise TypeError(f"a {type(value).__name__} where a {wanted.__name__} belongs")
    return value
