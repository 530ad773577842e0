"""Frames that wait in a directory, taken by the ledger: those whose turn it is, in their order, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from headrace.wire.exchange import DirectoryExchange
from headrace.wire.frames import Frame, FrameError, Header, StrangerError, from_bytes
from headrace.wire.ledger import Decision, FrameVerdict, Ledger, take_frame


class WaitingFrame(NamedTuple):
    path: Path
    data: bytes
    frame: Frame


class FrameIntake:
    """Takes the frames of a stream. `parked` says why frames wait, `refused` counts those that were put aside.

    The headers of frames that wait are kept in mind, so that none is read at every turn. `is_more`: there was no room
    for the last ones.
    """

    def __init__(self, exchange: DirectoryExchange, stream: str, edges: Iterable[str]) -> None:
        self.exchange = exchange
        self.stream = stream
        self.edges = frozenset(edges)
        self.headers: dict[tuple[Path, int], Header] = {}
        self.parked: dict[str, str] = {}
        self.refused = 0
        self.is_more = False
        exchange.admit(self.edges)

    def take(
        self,
        ledger: Ledger,
        has_room: Callable[[int], bool],
        decide: Callable[[Ledger, Header], Decision],
        accept: Callable[[WaitingFrame], bool],
    ) -> Ledger:
        """Return the ledger with the frames that were accepted. `has_room` is asked for each, by its bytes."""
        self.parked, self.is_more = {}, False
        paths = [(path, path.stat()) for path in self.exchange.waiting()]
        keys = {(path, look.st_mtime_ns) for path, look in paths}
        self.headers = {key: header for key, header in self.headers.items() if key in keys}
        for path, look in paths:
            if not has_room(look.st_size):
                self.is_more = True
                break
            waiting, key = None, (path, look.st_mtime_ns)
            try:
                if key not in self.headers:
                    waiting = self.read(path)
                    self.headers[key] = waiting.frame.header
                header = self.headers[key]
                verdict, reason = decide(ledger, header)
                if verdict is FrameVerdict.DUPLICATE:
                    path.unlink()
                elif verdict is FrameVerdict.WAIT:
                    self.parked[path.name] = reason
                elif accept(waiting or self.read(path)):
                    ledger = take_frame(ledger, header, look.st_size)
            except FrameError as problem:
                self.exchange.refuse(path, problem.reason)
                self.refused += 1
        return ledger

    def read(self, path: Path) -> WaitingFrame:
        data = path.read_bytes()
        frame = from_bytes(data)
        header = frame.header
        if header.file_name != path.name:
            raise FrameError(f"it is {header.file_name} by its header")
        if header.stream.lower() != self.stream.lower():
            raise FrameError(f"it is of the stream {header.stream}")
        if header.edge not in self.edges:
            raise StrangerError(header.edge, self.edges)
        return WaitingFrame(path, data, frame)
