"""Footers of many files: read several at once, and kept for files that look the same as when they were read."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from threading import Event, Semaphore, Thread

from headrace.inputs.readers import read_footer
from headrace.inputs.source import Footer, Source
from headrace.model.schema import Stream
from headrace.model.units import InputFile

MAX_KEPT = 10_000
MAX_THREADS = 16
SLOW_S = 0.001
"""A file that takes longer waits for its storage. Where none does, more threads would only wait for each other."""

Outcomes = dict[InputFile, Footer | Exception]


class FooterReader:
    """Reads the footers of a stream's files, and keeps the last of them. One thread at a time may use it."""

    def __init__(self, source: Source, stream: Stream) -> None:
        self.source = source
        self.stream = stream
        self.kept: dict[InputFile, Footer] = {}

    def read(self, files: Sequence[InputFile], stop: Event | None = None) -> Outcomes:
        """Return the footer of each file, or why it can't be read, for those that come before `stop` is set. An error
        is not kept: the file is opened again the next time.
        """
        outcomes: Outcomes = {file: self.kept[file] for file in files if file in self.kept}
        missing = [file for file in files if file not in outcomes]
        new = FooterPass(self.source, self.stream, missing, stop or Event()).run()
        self.kept |= {file: footer for file, footer in new.items() if not isinstance(footer, Exception)}
        for file in list(self.kept)[:-MAX_KEPT]:
            del self.kept[file]
        return outcomes | new


class FooterPass:
    """Reads the footers of some files: in the thread that calls and, where files are slow, in others at the same time.
    A process that exits does not wait for these.
    """

    def __init__(self, source: Source, stream: Stream, files: Sequence[InputFile], stop: Event) -> None:
        self.source = source
        self.stream = stream
        self.stop = stop
        self.waiting = deque(files)
        self.spare = Semaphore(MAX_THREADS - 1)
        self.threads: list[Thread] = []
        self.outcomes: Outcomes = {}

    def run(self) -> Outcomes:
        try:
            self.read_waiting()
            for thread in self.threads:  # each adds others before it ends
                thread.join()
        finally:
            self.waiting.clear()
        return self.outcomes

    def read_waiting(self) -> None:
        with suppress(IndexError):  # nothing waits any more
            while not self.stop.is_set():
                file = self.waiting.popleft()
                begun_s = time.monotonic()
                self.outcomes[file] = self.read_footer(file)
                if self.waiting and time.monotonic() - begun_s > SLOW_S:
                    self.add_thread()

    def read_footer(self, file: InputFile) -> Footer | Exception:
        try:
            return read_footer(self.source, file, self.stream)
        except Exception as problem:  # noqa: BLE001 - raised, or the file left out, when it is its turn
            return problem

    def add_thread(self) -> None:
        if self.spare.acquire(blocking=False):
            thread = Thread(target=self.read_waiting, name="footers", daemon=True)
            with suppress(RuntimeError):  # the system may have no thread to spare
                thread.start()
                self.threads.append(thread)
