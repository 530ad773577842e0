"""Where frames go up and orders come down. A directory is the plain form; the HTTP end stands before one.

<edge>~<incarnation>~<sequence>.frame    what edges sent and nobody has taken yet
refused/                                 what could not be used, with the reason in a file beside it
orders.json, tables/<digest>.arrow       what edges are asked to do, and the static tables they need for it
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from headrace.edge.frames import Header, read_header
from headrace.edge.orders import Orders, from_text, to_text
from headrace.model.errors import UsageError
from headrace.spark.disk import TEMPORARY, digest, make_folder, read_file, write_file

WHOLE = "[!.]*.frame"
"""Files that are being written begin with a dot."""
MOST_WAITING = 10_000
"""Frames in a directory: more are not taken in, so that an edge keeps them until there is room."""
ABANDONED_S = 3_600
"""Nobody writes on a file for so long. Who does all the same is told that it is gone, and writes it again."""


class FullError(UsageError):
    """There is no room for a frame now."""


class Exchange(Protocol):
    """The upper side, as an edge or a relay sees it. A frame that was put is on a disk when the call returns."""

    def put(self, header: Header, data: bytes) -> None: ...

    def orders(self) -> Orders | None:
        """What is asked for now; None if nobody said anything yet."""

    def table_bytes(self, name: str) -> bytes:
        """A static table as it was kept: an Arrow file."""


class DirectoryExchange:
    """Both sides of a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in (root, root / "refused", root / "tables"):
            make_folder(folder)

    # From below

    def put(self, header: Header, data: bytes) -> None:
        """Once more does no harm: the same frame has the same name."""
        if sum(1 for _ in self.root.glob(WHOLE)) >= MOST_WAITING:
            raise FullError("frames-waiting", f"{self.root} has {MOST_WAITING} frames that nobody has taken")
        write_file(self.root / header.file_name, data)

    def orders(self) -> Orders | None:
        text = self.orders_text()
        return None if text is None else from_text(text)

    def orders_text(self) -> str | None:
        try:
            return (self.root / "orders.json").read_text()
        except FileNotFoundError:
            return None

    def table_bytes(self, name: str) -> bytes:
        return read_file(self.root / "tables" / f"{name}.arrow", name)

    def table(self, name: str) -> pa.Table:
        return pa.ipc.open_file(pa.py_buffer(self.table_bytes(name))).read_all()

    # From above

    def waiting(self) -> Iterator[Path]:
        """Frames in the order in which each edge sent them. What somebody who was killed left half written goes."""
        self.sweep()
        return iter(sorted(self.root.glob(WHOLE)))

    def sweep(self) -> None:
        """Delete what nobody writes on any more."""
        for path in self.root.glob(f"{TEMPORARY}*"):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > ABANDONED_S:
                    path.unlink()

    def refuse(self, path: Path, reason: str) -> None:
        """Out of the way, but not lost."""
        write_file(self.root / "refused" / f"{path.name}.reason", f"{reason}\n".encode(errors="replace"))
        path.replace(self.root / "refused" / path.name)

    def publish(self, orders: Orders) -> None:
        text = to_text(orders)
        if text != self.orders_text():
            write_file(self.root / "orders.json", text.encode())

    def keep_table(self, data: bytes) -> str:
        name = digest(data)
        path = self.root / "tables" / f"{name}.arrow"
        if not path.exists():
            write_file(path, data)
        return name


def header_of(path: Path) -> Header:
    return read_header(path.read_bytes())
