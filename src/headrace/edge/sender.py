"""Frames go up from the spool in a thread of their own, in order, again and again until the upper side has each."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

from headrace.edge.file_source import Report
from headrace.edge.spool import Spool, SpooledFrame
from headrace.model.errors import HeadraceError
from headrace.storage.disk import DamagedError
from headrace.wire.exchange import DirectoryExchange, Exchange
from headrace.wire.frames import FrameError, Header, read_header

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 30.0
WAKE_S = 0.2
REFUSALS = ("refused", "token")
"""Codes of what the other side says no to: waiting seldom fixes it."""


def exchange_at(place: Path | str, stream: str, token: str | None = None, *, allow_plain: bool = False) -> Exchange:
    """Return the upper side: a directory, or the server at a URL."""
    if isinstance(place, Path):
        return DirectoryExchange(place)
    from headrace.wire.http_client import HttpExchange

    return HttpExchange(place, token, stream, allow_plain=allow_plain)


def pause_s(failures: int, source: random.Random) -> float:
    """Return how long to wait after n failures in a row: twice as long each time, and not all edges at once."""
    longest_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 20))
    return longest_s * source.uniform(0.5, 1.0)


def spooled_header(entry: SpooledFrame, frame: bytes) -> Header:
    try:
        return read_header(frame)
    except FrameError as problem:
        raise DamagedError(entry.path, f"is damaged: {problem.message}") from None


class Sender:
    """`problem` is why the last try failed, None if it did not; `failing_since_s` when the tries began to fail.

    A frame that is refused is reported once, and tried again. What is wrong with the spool itself is in `broken`, and
    ends the thread.
    """

    def __init__(
        self, spool: Spool, exchange: Exchange, seed: int | None = None, *, report: Report = lambda text: None
    ) -> None:
        self.spool = spool
        self.exchange = exchange
        self.random = random.Random(seed)
        self.report = report
        self.frames = 0
        self.bytes = 0
        self.problem: str | None = None
        self.failing_since_s: float | None = None
        self.refused: SpooledFrame | None = None
        self.broken: DamagedError | None = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, name="sender", daemon=True)
        self.thread.start()

    def run(self) -> None:
        failures = 0
        while not self.stopping.is_set() and self.broken is None:
            entry = self.spool.first(WAKE_S)
            if entry is None:
                continue
            failures = 0 if self.send(entry) else failures + 1
            if failures:
                self.stopping.wait(pause_s(failures, self.random))

    def send(self, entry: SpooledFrame) -> bool:
        """Whether the upper side has it."""
        try:
            frame = entry.frame()
            self.exchange.put(spooled_header(entry, frame), frame)
        except DamagedError as problem:
            self.broken = problem
            return False
        except (HeadraceError, OSError) as problem:
            self.problem = getattr(problem, "message", str(problem))
            self.failing_since_s = self.failing_since_s or time.monotonic()
            if getattr(problem, "code", None) in REFUSALS and self.refused is not entry:
                self.refused = entry
                self.report(f"not taken above, nor any frame after it: {entry.path.name}: {self.problem}")
            return False
        self.problem, self.failing_since_s = None, None
        self.frames += 1
        self.bytes += entry.size
        self.spool.acknowledge()
        return True

    def has_failed_for(self, patience_s: float) -> bool:
        since_s = self.failing_since_s
        return self.broken is not None or (since_s is not None and time.monotonic() - since_s >= patience_s)

    def check(self) -> None:
        if self.broken is not None:
            raise self.broken

    def stop(self, patience_s: float) -> None:
        """When all is sent, or no frame could be for some time: those are sent at the next start."""
        while self.spool.waiting and self.thread.is_alive() and not self.has_failed_for(patience_s):
            self.spool.wait_for_room(WAKE_S)
        self.stopping.set()
        self.thread.join()
