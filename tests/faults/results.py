"""What any reader of a results folder may rely on: a file that is visible stays, and stays as it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple


class Sight(NamedTuple):
    """A visible file as it was when it was first seen."""

    inode: int
    size: int
    modified_ns: int
    digest: str


def visible_files(folder: Path) -> Iterator[Path]:
    """Result files, query by query; names that begin with a dot are no results yet."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(parent, name) for name in names if not name.startswith("."))


class Watcher:
    """Looks at all visible files again and again."""

    def __init__(self, folder: Path, sights: dict[str, Sight] | None = None) -> None:
        self.folder = folder
        self.sights = {} if sights is None else sights
        self.problems: list[str] = []
        self.looks = 0

    def look(self, *, thorough: bool = False) -> None:
        """Note new files; known ones must be there unchanged. Thorough: their contents are read again too."""
        present = set()
        for path in visible_files(self.folder):
            name = str(path.relative_to(self.folder))
            present.add(name)
            known = self.sights.get(name)
            try:
                found = os.stat(path)
                same = known is not None and known[:3] == (found.st_ino, found.st_size, found.st_mtime_ns)
                if known is not None and same and not thorough:
                    continue
                digest = blake2b(path.read_bytes(), digest_size=16).hexdigest()
            except FileNotFoundError:
                present.discard(name)
                continue
            if known is None:
                self.sights[name] = Sight(found.st_ino, found.st_size, found.st_mtime_ns, digest)
            elif digest != known.digest:
                self.problems.append(f"{name} was visible and has changed")
                self.sights[name] = Sight(found.st_ino, found.st_size, found.st_mtime_ns, digest)
        for name in [name for name in self.sights if name not in present]:
            self.problems.append(f"{name} was visible and is gone")
            del self.sights[name]
        self.looks += 1
