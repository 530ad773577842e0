"""Where an edge reads its rows: files here, sockets and standard input in `channels`."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import Protocol

from headrace.edge.edge_state import Reading, SourceMark, looks
from headrace.edge.intake import Intake, Refused, concat, intake_of, refused_only, runs_of
from headrace.inputs import (
    BadFile,
    Source,
    cut,
    list_files,
    parquet,
    read,
)
from headrace.model.schema import Stream
from headrace.model.units import InputFile, Unit
from headrace.storage.seen_files import Look

UNIT_BYTES = 4 << 20
LISTED_EVERY_S = 1.0
Report = Callable[[str], None]


class RowSource(Protocol):
    """Gives rows in pieces.

    One that `has_position` can be read again from a mark. `present` are the names that marks may still mention, None if
    it has no names. `is_ended`: no row will come, ever. `datagrams_dropped` by the system, as far as it reports them.
    """

    @property
    def has_position(self) -> bool: ...

    @property
    def is_ended(self) -> bool: ...

    @property
    def present(self) -> Collection[str] | None: ...

    @property
    def datagrams_dropped(self) -> int: ...

    def take(self, columns: Collection[str], timeout_s: float) -> Intake | None:
        """The next piece, of these columns; None if none came in time. A frame ends between two pieces."""

    def take_again(self, columns: Collection[str]) -> Intake:
        """The last piece taken, with these columns: the same rows in the same order."""

    def mark(self) -> SourceMark:
        """Behind the last piece taken; what is new since the last call."""

    def stop(self) -> None:
        """Take in nothing more. What came until now, and can't be read again, is still given."""


class FileSource:
    """Files of a directory, oldest first, each name once, as the engine reads them.

    A file that can't be read is reported and counts as one bad row. A file that changes after it was read is reported
    once.
    """

    has_position = True
    datagrams_dropped = 0

    def __init__(
        self,
        source: Source,
        stream: Stream,
        seen: Mapping[str, Look | None],
        reading: Reading | None,
        report: Report,
        unit_bytes: int = UNIT_BYTES,
    ) -> None:
        self.source = source
        self.stream = stream
        self.report = report
        self.unit_bytes = unit_bytes
        self.seen: dict[str, Look | None] = dict(seen)
        self.reading = reading
        self.finished: list[InputFile] = []
        self.waiting: deque[InputFile] = deque()
        self.is_ended = False
        self.listed_s: float | None = None
        self.pieces: Iterator[Intake] = iter(())
        self.columns: frozenset[str] | None = None
        self.present: Collection[str] = self.seen.keys()

    def take(self, columns: Collection[str], timeout_s: float) -> Intake | None:
        if frozenset(columns) != self.columns:
            self.columns = frozenset(columns)
            self.pieces = self.unread()
        rows = None if self.is_ended else next(self.pieces, None)
        if rows is None and not self.is_ended:
            self.pieces = self.unread()
            time.sleep(timeout_s)
        return rows

    def take_again(self, columns: Collection[str]) -> Intake:
        """Raise a BadFile if the file can't be read any more."""
        assert self.reading is not None
        units = cut(self.source, self.reading.file, self.stream, self.reading.unit_bytes)
        pieces = self.pieces_of(units[self.reading.unit], columns)
        return next(islice(pieces, self.reading.piece - 1, None))

    def mark(self) -> SourceMark:
        done, self.finished = self.finished, []
        return SourceMark(tuple(done), self.reading)

    def stop(self) -> None:
        self.is_ended = True

    def unread(self) -> Iterator[Intake]:
        """All that is there behind the last piece taken."""
        if self.reading is not None:
            yield from self.rest_of(self.reading)
        if not self.waiting:
            self.list_new()
        while self.waiting:
            file = self.waiting.popleft()
            yield from self.rest_of(Reading(file.path, file.size, file.modified_ns, self.unit_bytes))

    def list_new(self) -> None:
        now_s = time.monotonic()
        if self.listed_s is not None and now_s - self.listed_s < LISTED_EVERY_S:
            return
        self.listed_s = now_s
        files = list_files(self.source)
        if files:  # a directory without any may be one that is not mounted: nothing is forgotten for it
            self.present = {file.path for file in files}
        for file in files:
            if file.path not in self.seen:
                self.waiting.append(file)
            elif (look := self.seen[file.path]) is not None and look != (file.size, file.modified_ns):
                self.seen[file.path] = None
                self.report(f"changed after it was read: {file.path}; its new rows are not read")

    def rest_of(self, begun: Reading) -> Iterator[Intake]:
        """The pieces of a file behind those that are read. Where it is moves on before a piece is given."""
        assert self.columns is not None
        self.reading = begun
        try:
            units = cut(self.source, begun.file, self.stream, begun.unit_bytes)
            for number in range(begun.unit, len(units)):
                skipped = begun.piece if number == begun.unit else 0
                for place, rows in enumerate(self.pieces_of(units[number], self.columns)):
                    if place >= skipped:
                        self.reading = begun._replace(unit=number, piece=place + 1)
                        yield rows
        except BadFile as problem:
            self.report(f"left out: {begun.path}: {problem.reason}")
            self.finish(begun.file)
            yield refused_only(self.stream, self.columns, Refused(problem.reason, is_reported=True))
        else:
            self.finish(begun.file)

    def pieces_of(self, unit: Unit, columns: Collection[str]) -> Iterator[Intake]:
        """They are counted, so they must end at the same rows whatever the columns."""
        pieces = map(intake_of, read(self.source, unit, self.stream, columns))
        if self.source.format != "parquet":
            return pieces
        # Arrow splits pieces where a dictionary of some column ends
        return map(concat, runs_of(pieces, attrgetter("row_count"), parquet.PIECE_ROWS))

    def finish(self, file: InputFile) -> None:
        self.seen |= looks([file])
        self.finished.append(file)
        self.reading = None
