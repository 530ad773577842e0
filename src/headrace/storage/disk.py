"""Every byte of state goes through here: files that appear whole or not at all, and are checked when read.

Local and mounted file systems only: what is promised rests on rename, link and fsync.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from itertools import takewhile
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import msgspec

from headrace.model.errors import DataError, UsageError
from headrace.model.record import convert

Value = TypeVar("Value")
DIGEST_BYTES = 16
SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/")
TEMPORARY = ".writing-"
SYNC_THREADS = 8
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
FULL = "make room and start again: it continues where it stopped"
NOT_OURS = "is it a directory that you may write to? then start again: it continues where it stopped"


class DamagedError(DataError):
    """A file of the state that is not what was written."""

    def __init__(self, place: Path | str, problem: str) -> None:
        super().__init__(
            "damaged-state",
            f"{place} {problem}",
            hint="restore the state directory from a copy, or start over with an empty one",
        )


class StateWriteError(DataError):
    """No room, or no right, to write. Nothing that was committed is lost."""


class MissingError(StateWriteError):
    """What was to be renamed is not there."""


def local_path(text: str | os.PathLike[str]) -> Path:
    """A path of this file system; others are refused by the name of their scheme."""
    scheme = SCHEME.match(os.fspath(text))
    if scheme and scheme[1].lower() != "file":
        problem = f"{scheme[1]}:// is not a file system that state can live on"
        raise UsageError("file-system", problem, hint="use a local or mounted directory")
    return Path(os.path.abspath(os.fspath(text).removeprefix("file://")))


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def make_folder(path: Path) -> None:
    """Make a private folder, and those above it that are missing; their names are on the disk when this returns."""
    with translate_errors(path):
        missing = list(takewhile(lambda folder: not folder.is_dir(), (path, *path.parents)))
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
            sync(folder.parent)


def check_writable(folder: Path) -> None:
    """Whether files can be made there; the folder is there afterwards."""
    make_folder(folder)
    with translate_errors(folder):
        write_aside(folder / "check", b"").unlink()


def write_file(path: Path, data: bytes) -> None:
    """In place of what was there, as a whole; it is on the disk when this returns."""
    with translate_errors(path):
        temporary = write_aside(path, data)
        temporary.replace(path)
        sync(path.parent)


def create_file(path: Path, data: bytes) -> bool:
    """The same, but only if there was nothing: False if there was."""
    with translate_errors(path):
        temporary = write_aside(path, data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        sync(path.parent)
        return True


def write_aside(path: Path, data: bytes, *, is_synced: bool = True) -> Path:
    temporary = path.with_name(f"{TEMPORARY}{uuid4().hex}-{path.name}")
    write_whole(temporary, data, is_synced=is_synced)
    return temporary


def write_whole(path: Path, data: bytes, *, is_synced: bool = True) -> None:
    try:
        with open(path, "xb", opener=private) as file:
            file.write(data)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def sync(path: Path) -> None:
    """What is in a file, or which names are in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@cache
def syncing_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="sync")


os.register_at_fork(after_in_child=syncing_threads.cache_clear)


def begin_sync(paths: Iterable[Path]) -> Callable[[], None]:
    """Many at once: the file system then writes its own log once for several. The call that is given waits for all."""
    begun = [(path, syncing_threads().submit(sync, path)) for path in paths]

    def wait() -> None:
        for path, done in begun:
            with translate_errors(path):
                done.result()

    return wait


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as problem:
        raise MissingError("state-write", f"can't write {path}: {problem.strerror}") from None
    except OSError as problem:
        hint = FULL if problem.errno in NO_ROOM else NOT_OURS
        raise StateWriteError("state-write", f"can't write {path}: {problem.strerror}", hint=hint) from None


def read_file(path: Path, expected: str | None = None) -> bytes:
    """The bytes, which must have the expected digest."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DamagedError(path, "is missing") from None
    except OSError as problem:
        raise DamagedError(path, f"can't be read: {problem.strerror}") from None
    return check_digest(data, expected, path)


def check_digest(data: bytes, expected: str | None, place: Path | str) -> bytes:
    """Return the bytes, which must have the expected digest, if there is one."""
    if expected is not None and digest(data) != expected:
        raise DamagedError(place, "is damaged: it has another checksum than when it was written")
    return data


# Records: JSON behind a line with its digest


def to_record(value: object) -> bytes:
    text = to_json(value)
    return digest(text).encode() + b"\n" + text + b"\n"


def read_record(path: Path, kind: type[Value]) -> Value:
    """Return a value of the type that was written."""
    return parse_record(read_file(path), kind, path)


def parse_record(data: bytes, kind: type[Value], place: Path | str) -> Value:
    head, _, text = data.partition(b"\n")
    check_digest(text.removesuffix(b"\n"), head.decode("ascii", "replace"), place)
    try:
        return from_json(text, kind)
    except ValueError as problem:
        raise DamagedError(place, f"can't be used: {problem}") from None


def to_json(value: object) -> bytes:
    """Return a value as JSON. Not by `msgspec.json`, which writes NaN as null and refuses names of files that are not
    UTF-8.
    """
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":"), allow_nan=False).encode()


def from_json(text: bytes, kind: type[Value]) -> Value:
    """Return the value in a JSON text; raise a ValueError if it is not of the type."""
    return convert(json.loads(text), kind)
