"""A store in a directory of this file system: what is promised rests on link, rename and fsync."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from headrace.storage.disk import (
    TEMPORARY,
    StateWriteError,
    create_file,
    local_path,
    make_folder,
    sync,
    translate_errors,
    write_file,
)
from headrace.storage.store import Listed, MissingObjectError, StoreError


class LocalStore:
    """Objects are files below a directory."""

    def __init__(self, location: str | os.PathLike[str]) -> None:
        self.root = local_path(location)
        self.location = str(self.root)

    def create(self, name: str, data: bytes) -> bool:
        path = self.writable(name)
        try:
            if create_file(path, data):
                return True
        except StateWriteError:
            if not path.exists():
                raise
            with translate_errors(path):
                sync(path.parent)
        return self.get(name) == data

    def put(self, name: str, data: bytes) -> None:
        write_file(self.writable(name), data)

    def writable(self, name: str) -> Path:
        path = self.root / name
        if not path.parent.is_dir():
            make_folder(path.parent)
        return path

    def get(self, name: str) -> bytes:
        path = self.root / name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise MissingObjectError("missing-object", f"{path} is missing") from None
        except OSError as problem:
            raise StoreError("state-read", f"can't read {path}: {problem.strerror}") from None

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        path = self.root / name
        try:
            with path.open("rb") as file:
                return [os.pread(file.fileno(), end - start, start) for start, end in ranges]
        except FileNotFoundError:
            raise MissingObjectError("missing-object", f"{path} is missing") from None
        except OSError as problem:
            raise StoreError("state-read", f"can't read {path}: {problem.strerror}") from None

    def list(self, prefix: str) -> list[Listed]:
        objects = []
        for folder, _, names in os.walk(self.root / prefix):
            for name in names:
                path = Path(folder, name)
                if not name.startswith(TEMPORARY):
                    try:
                        objects.append(Listed(path.relative_to(self.root).as_posix(), path.stat().st_size))
                    except FileNotFoundError:  # deleted meanwhile
                        continue
        return sorted(objects)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with translate_errors(self.root / name):
                (self.root / name).unlink(missing_ok=True)
