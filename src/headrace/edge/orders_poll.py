"""Orders, polled for in a thread of its own and kept on the disk: an edge works on while nobody above answers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from headrace.model.errors import DataError
from headrace.wire.exchange import DirectoryExchange, Exchange
from headrace.wire.orders import Orders, to_text


@dataclass(frozen=True, eq=False)
class ReceivedOrders:
    """Orders with the static tables that they need."""

    orders: Orders
    tables: Mapping[str, pa.Table] = field(default_factory=dict)


class OrdersPoll:
    """`newest` is what is asked for now, None if nobody ever said. `problem` is why the last poll failed, `hint` what
    may fix that.
    """

    def __init__(self, exchange: Exchange, kept: Path, stream: str, poll_s: float) -> None:
        self.exchange = exchange
        self.kept = DirectoryExchange(kept)
        self.stream = stream
        self.poll_s = poll_s
        self.newest: ReceivedOrders | None = None
        self.text: str | None = None
        self.problem: str | None = None
        self.hint: str | None = None
        self.stopping = threading.Event()
        self.has_polled = threading.Event()
        self.thread = threading.Thread(target=self.run, name="orders", daemon=True)
        self.thread.start()

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self.poll()
                self.problem = None
            except Exception as problem:  # noqa: BLE001 - whatever comes from above, the next poll may bring better
                self.problem = getattr(problem, "message", str(problem))
                self.hint = getattr(problem, "hint", None)
            if self.newest is None:
                self.remember()
            self.has_polled.set()
            self.stopping.wait(self.poll_s)

    def poll(self) -> None:
        orders = self.exchange.orders()
        if orders is None or to_text(orders) == self.text:
            return
        if orders.stream.lower() != self.stream.lower():
            raise DataError("orders", f"the orders are for stream {orders.stream}, this edge reads {self.stream}")
        for name in orders.tables.values():
            self.kept.keep_table(self.exchange.table_bytes(name))
        self.kept.publish(orders)
        self.adopt(orders)
        for path in (self.kept.root / "tables").iterdir():
            if path.stem not in orders.tables.values():
                path.unlink()

    def adopt(self, orders: Orders) -> None:
        """Orders that are kept here with their tables."""
        tables = {name: self.kept.table(kept) for name, kept in orders.tables.items()}
        self.newest, self.text = ReceivedOrders(orders, tables), to_text(orders)

    def remember(self) -> None:
        """What was asked for before this start."""
        try:
            orders = self.kept.orders()
            if orders is not None:
                self.adopt(orders)
        except Exception as problem:  # noqa: BLE001 - damaged orders are as good as none
            self.problem = self.problem or str(problem)

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join()
