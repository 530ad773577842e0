"""Which files of a stream have been read: the journals of committed steps say it, and now and then one list of all."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from headrace.model.errors import UsageError
from headrace.model.record import Record
from headrace.model.units import InputFile
from headrace.storage.directory import Directory, journal_name
from headrace.storage.disk import DamagedError, to_record
from headrace.storage.records import Commit, Journal
from headrace.storage.store import read_stored

LOG = logging.getLogger(__name__)
LISTED_EVERY = 64
"""Steps between lists of all files."""
ABSENT_US = 7 * 86_400_000_000
"""How long the name of a file that is gone is remembered at least, unless there are too many."""
MAX_ABSENT = 1_000_000
"""How many names of files that are gone are remembered."""


def list_name(step: int) -> str:
    return f"inputs/{step:09}.json"


def device_of(folder: str) -> int:
    return os.stat(folder).st_dev


class Look(NamedTuple):
    """What a file looked like when it was read."""

    size: int
    modified_ns: int


class FileList(Record, frozen=True):
    """All files that were read, with what they looked like if that is known, and since when some are gone."""

    files: list[str | tuple[str, int, int]]
    absent_us: dict[str, int]


ANY_FILE_LIST: Any = FileList | list[str]
"""Once a list had nothing but the paths."""


class SeenFiles:
    """The files that committed steps have read, by path. Those that are known to have changed since, and those of lists
    that had nothing but paths, have no look. `absent_us` says since when a file is known to be gone, by the clock of
    the steps: it may come back, and must not be read again then.
    """

    def __init__(self, directory: Directory, commit: Commit | None) -> None:
        self.directory = directory
        self.listed = commit.inputs if commit else 0
        self.device: int | None = None
        self.looks: dict[str, Look | None] = {}
        self.absent_us: dict[str, int] = {}
        if self.listed:
            known = read_stored(directory.store, list_name(self.listed), ANY_FILE_LIST)
            if isinstance(known, FileList):
                self.absent_us = known.absent_us
            for file in known.files if isinstance(known, FileList) else known:
                path, *look = [file] if isinstance(file, str) else file
                self.looks[path] = Look(*look) if look else None
        for step in range(self.listed + 1, (commit.step if commit else 0) + 1):
            journal = directory.journal(step)
            if journal is None:  # it is written before its step
                raise DamagedError(directory.place(journal_name(step)), "is missing")
            self.add(journal)

    def check_device(self, folder: str) -> None:
        """Raise an error if the directory lies on another device than before: a disk was mounted, or is gone."""
        device = device_of(folder)
        if self.device is None:
            self.device = device
        elif device != self.device:
            hint = "mount what was there; if it was moved on purpose, start again"
            raise UsageError("file", f"the directory {folder} lies on another device than before", hint=hint)

    def add(self, journal: Journal) -> None:
        """Add what a committed step read, and what it found changed: that is reported once."""
        self.looks |= {file.path: Look(file.size, file.modified_ns) for file in journal.files}
        self.looks |= dict.fromkeys(journal.changed)

    def new(self, files: Iterable[InputFile]) -> list[InputFile]:
        return [file for file in files if file.path not in self.looks]

    def list_changed(self, files: Iterable[InputFile]) -> list[str]:
        """Files that were read and look different now: a name is read once."""
        known = ((file, self.looks.get(file.path)) for file in files)
        return [file.path for file, look in known if look and look != (file.size, file.modified_ns)]

    def is_due(self, step: int) -> bool:
        """Whether it is time for a list of all files."""
        return step - self.listed >= LISTED_EVERY

    def write(self, step: int, present: Collection[str], clock_us: int | None) -> int:
        """Write the list. Files that are gone are remembered for a time, in case they come back."""
        if clock_us is not None:
            self.forget_absent(present, clock_us)
        files = [path if look is None else (path, *look) for path, look in sorted(self.looks.items())]
        self.directory.store.put(list_name(step), to_record(FileList(files, self.absent_us)))
        self.listed = step
        return step

    def forget_absent(self, present: Collection[str], clock_us: int) -> None:
        self.absent_us = remembered_absent(self.looks, self.absent_us, present, clock_us)
        self.looks = {path: look for path, look in self.looks.items() if path in present or path in self.absent_us}


def remembered_absent(
    paths: Iterable[str], absent_us: Mapping[str, int], present: Collection[str], clock_us: int
) -> dict[str, int]:
    """The names of files that are gone and still remembered, with the time since when they are known to be: not those
    that are gone for long, and if there are too many, not those that are gone longest.
    """
    absent = {path: absent_us.get(path, clock_us) for path in paths if path not in present}
    kept = {path: since_us for path, since_us in absent.items() if clock_us - since_us < ABSENT_US}
    excess = max(0, len(kept) - MAX_ABSENT)
    if excess:
        LOG.warning(
            "%s names of files that are gone were forgotten early: more than %s are gone; should such a file come back "
            "under its name, it is read again",
            f"{excess:,}",
            f"{MAX_ABSENT:,}",
        )
    return dict(sorted(kept.items(), key=lambda item: (item[1], item[0]))[excess:])
