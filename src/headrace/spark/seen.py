"""Which files of a stream have been read: the journals of committed steps say it, and now and then one list of all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from headrace.spark.directory import Directory
from headrace.spark.disk import read_record, to_record, write_file
from headrace.spark.inputs import InputFile
from headrace.spark.records import Commit, Journal

LISTED_EVERY = 64
"""Steps between lists of all files."""


class Look(NamedTuple):
    """What a file looked like when it was read."""

    size: int
    modified_ns: int


class Seen:
    """The files that committed steps have read, by path. Those that are known to have changed since, and those of lists
    that had nothing but paths, have no look.
    """

    def __init__(self, directory: Directory, commit: Commit | None) -> None:
        self.directory = directory
        self.listed = commit.inputs if commit else 0
        self.looks: dict[str, Look | None] = {}
        if self.listed:
            for each in read_record(self.path(self.listed)):
                path, *look = [each] if isinstance(each, str) else each
                self.looks[path] = Look(*look) if look else None
        for step in range(self.listed + 1, (commit.step if commit else 0) + 1):
            journal = directory.journal(step)
            if journal is None:
                # A journal is written before its step, so this is damage; reading it says so.
                read_record(directory.journal_path(step))
            else:
                self.add(journal)

    def path(self, step: int) -> Path:
        return self.directory.root / "inputs" / f"{step:09}.json"

    def add(self, journal: Journal) -> None:
        """What a committed step read, and what it found changed: that is told once."""
        self.looks |= {file.path: Look(file.size, file.modified_ns) for file in journal.files}
        self.looks |= dict.fromkeys(journal.changed)

    def new(self, files: Iterable[InputFile]) -> list[InputFile]:
        return [file for file in files if file.path not in self.looks]

    def changed(self, files: Iterable[InputFile]) -> list[str]:
        """Files that were read and look different now: a name is read once."""
        known = ((file, self.looks.get(file.path)) for file in files)
        return [file.path for file, look in known if look and look != (file.size, file.modified_ns)]

    def is_due(self, step: int) -> bool:
        """Whether it is time for a list of all files."""
        return step - self.listed >= LISTED_EVERY

    def write(self, step: int, present: Collection[str]) -> int:
        """Write the list; files that are gone need not be remembered."""
        self.looks = {path: look for path, look in self.looks.items() if path in present}
        written = [path if look is None else [path, *look] for path, look in sorted(self.looks.items())]
        write_file(self.path(step), to_record(written))
        self.listed = step
        return step
