"""Where frames go up and orders come down. A directory is the plain form; the HTTP end stands before one.

<edge>~<incarnation>~<sequence>.frame    what edges sent and nobody has taken yet
refused/                                 what could not be used, with the reason in a file beside it
edges.txt                                whose frames are taken; until there is one, those of all
orders.json, tables/<digest>.arrow       what edges are asked to do, and the static tables they need for it
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from headrace.model.errors import DataError, UsageError, printable
from headrace.storage.disk import TEMPORARY, digest, make_folder, read_file, translate_errors, write_file
from headrace.wire.frames import Header, StrangerError
from headrace.wire.orders import Orders, from_text, to_text

LOG = logging.getLogger(__name__)
WHOLE = "[!.]*.frame"
"""Files that are being written begin with a dot."""
MAX_WAITING = 10_000
"""Frames in a directory: more are not taken in, so that an edge keeps them until there is room."""
MIN_SHARE = 16
"""Each edge that may send has an equal share of them, and at least this many."""
ABANDONED_S = 3_600
"""Nobody takes this long to write a file. A sender that does gets an error that it is gone, and writes it again."""


class InboxFullError(UsageError):
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
        self.reported: dict[str, tuple[str, str]] = {}
        for folder in (root, root / "refused", root / "tables"):
            make_folder(folder)

    # From below

    def put(self, header: Header, data: bytes) -> None:
        """Once more does no harm: the same frame has the same name."""
        with translate_errors(self.root / header.file_name):
            edges = self.edges()
        if edges is not None and header.edge not in edges:
            raise StrangerError(header.edge, edges)
        share = MAX_WAITING if edges is None else max(MAX_WAITING // max(len(edges), 1), MIN_SHARE)
        mine = WHOLE if edges is None else f"{header.edge}~*.frame"
        if sum(1 for _ in self.root.glob(mine)) >= share:
            raise InboxFullError("frames-waiting", f"{self.root} has {share} frames that nobody has taken")
        write_file(self.root / header.file_name, data)

    def edges(self) -> Collection[str] | None:
        """Return who may send, as the reader of this directory said at its last start."""
        text = text_in(self.root / "edges.txt")
        return None if text is None else text.split()

    def orders(self) -> Orders | None:
        text = self.orders_text()
        return None if text is None else from_text(text)

    def orders_text(self) -> str | None:
        return text_in(self.root / "orders.json")

    def table_bytes(self, name: str) -> bytes:
        return read_file(self.root / "tables" / f"{name}.arrow", name)

    def table(self, name: str) -> pa.Table:
        return pa.ipc.open_file(pa.py_buffer(self.table_bytes(name))).read_all()

    # From above

    def admit(self, edges: Collection[str]) -> None:
        """These may send, and nobody else."""
        if self.edges() != sorted(edges):
            write_file(self.root / "edges.txt", "".join(f"{edge}\n" for edge in sorted(edges)).encode())

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
        LOG.warning("refused: %s: %s", printable(path.name), printable(reason))
        write_file(self.root / "refused" / f"{path.name}.reason", f"{reason}\n".encode(errors="replace"))
        path.replace(self.root / "refused" / path.name)

    def report_parked(self, parked: Mapping[str, str]) -> None:
        """Log which frames stay here, and why the first of each edge does, when that is new."""
        by_edge: dict[str, list[str]] = {}
        for name in sorted(parked):
            by_edge.setdefault(name.partition("~")[0], []).append(name)
        for edge, (first, *rest) in by_edge.items():
            if self.reported.get(edge) != (first, parked[first]):
                self.reported[edge] = first, parked[first]
                more = f" and {len(rest):,} after it" if rest else ""
                LOG.warning("edge %s: parked %s%s: %s", edge, first, more, printable(parked[first]))

    def publish(self, orders: Orders) -> None:
        path, data = self.root / "orders.json", to_text(orders).encode()
        if not path.exists() or path.read_bytes() != data:
            write_file(path, data)

    def keep_table(self, data: bytes) -> str:
        name = digest(data)
        path = self.root / "tables" / f"{name}.arrow"
        if not path.exists():
            write_file(path, data)
        return name


def text_in(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise DataError("no-text", f"{path} is no text") from None
