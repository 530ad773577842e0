"""Which files of a stream have been read: the journals of committed steps say it, and now and then one list of all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.spark.directory import Directory
from headrace.spark.disk import read_record, to_record, write_file
from headrace.spark.inputs import InputFile
from headrace.spark.records import Commit

LISTED_EVERY = 64
"""Steps between lists of all files."""


class Seen:
    """The paths of files that committed steps have read."""

    def __init__(self, directory: Directory, commit: Commit | None) -> None:
        self.directory = directory
        self.listed = commit.inputs if commit else 0
        self.paths: set[str] = set()
        if self.listed:
            self.paths |= set(read_record(self.path(self.listed)))
        for step in range(self.listed + 1, (commit.step if commit else 0) + 1):
            journal = directory.journal(step)
            if journal is None:
                # A journal is written before its step, so this is damage; reading it says so.
                read_record(directory.journal_path(step))
            else:
                self.paths |= {file.path for file in journal.files}

    def path(self, step: int) -> Path:
        return self.directory.root / "inputs" / f"{step:09}.json"

    def new(self, files: Iterable[InputFile]) -> list[InputFile]:
        return [file for file in files if file.path not in self.paths]

    def is_due(self, step: int) -> bool:
        """Whether it is time for a list of all files."""
        return step - self.listed >= LISTED_EVERY

    def write(self, step: int, present: Iterable[str]) -> int:
        """Write the list; files that are gone need not be remembered."""
        self.paths &= set(present)
        write_file(self.path(step), to_record(sorted(self.paths)))
        self.listed = step
        return step
