"""Where state lives: bytes under names, on a disk or in an object store.

The protocol of steps needs nothing else: no rename, no lock, no folder. A put is durable and whole when it returns.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, lru_cache
from typing import NamedTuple, Protocol, TypeVar

from headrace.model.errors import DataError, UsageError
from headrace.storage.disk import DamagedError, check_digest, local_path, parse_record

Value = TypeVar("Value")

SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://")
OBJECT_STORES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
THREADS = 8


class MissingObjectError(DataError):
    """There is no object of this name."""


class StoreError(DataError):
    """A store that refuses or fails, after its retries. Nothing that was committed is lost."""


class Listed(NamedTuple):
    """An object in a listing."""

    name: str
    size: int


class Store(Protocol):
    """Objects by their names, which are relative paths with slashes. Implementations are safe to use from threads."""

    location: str

    def create(self, name: str, data: bytes) -> bool:
        """Put an object if there is none of this name. Return whether it is there with these bytes.

        So a caller whose first answer was lost is not refused. Those who race for a name write bytes that no other
        writes.
        """

    def put(self, name: str, data: bytes) -> None:
        """Put an object in place of what was there."""

    def get(self, name: str) -> bytes:
        """Return the bytes of an object; raise MissingObjectError if there is none."""

    def get_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes [start, end) of an object, for each range."""

    def list(self, prefix: str) -> list[Listed]:
        """Return the objects whose names begin with a folder, such as `commits`, in the order of their names."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are not there do not matter."""


def is_remote(location: str | os.PathLike[str]) -> bool:
    """Return whether a location is in an object store."""
    scheme = SCHEME.match(os.fspath(location))
    return scheme is not None and scheme[1].lower() != "file"


def locate(place: str | os.PathLike[str]) -> str:
    """Return a path or URL in the form that a store is known by: paths are absolute."""
    if not is_remote(place):
        return str(local_path(place))
    location = os.fspath(place).rstrip("/")
    scheme = location.partition("://")[0]
    if scheme.lower() not in OBJECT_STORES:
        problem = f"{scheme}:// is not a store that state can live on"
        raise UsageError("store", problem, hint=f"use a path, or one of {', '.join(f'{s}://' for s in OBJECT_STORES)}")
    return location


def open_store(place: str | os.PathLike[str]) -> Store:
    """Return the store at a path or URL. What it needs beside, such as credentials, comes from the environment."""
    return known_store(locate(place))


@lru_cache(maxsize=64)
def known_store(location: str) -> Store:
    if is_remote(location):
        from headrace.storage.object_store import ObjectStore

        return ObjectStore(location)
    from headrace.storage.local_store import LocalStore

    return LocalStore(location)


@cache
def store_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="store")


def forget_after_fork() -> None:
    """Forget clients and threads, which a fork does not copy."""
    known_store.cache_clear()
    store_threads.cache_clear()


os.register_at_fork(after_in_child=forget_after_fork)


def put_all(store: Store, objects: Mapping[str, bytes]) -> None:
    """Put several objects at once; raise the first error when all are done."""
    puts = [store_threads().submit(store.put, name, data) for name, data in objects.items()]
    wait(puts)
    for put in puts:
        put.result()


def read_object(store: Store, name: str, expected: str | None = None) -> bytes:
    """Return the bytes of an object that a record names, which must have the expected digest."""
    place = place_of(store, name)
    try:
        return check_digest(store.get(name), expected, place)
    except MissingObjectError:
        raise DamagedError(place, "is missing") from None


def read_stored(store: Store, name: str, kind: type[Value]) -> Value:
    """Return the value of a record that must be there."""
    return parse_record(read_object(store, name), kind, place_of(store, name))


def find_stored(store: Store, name: str, kind: type[Value]) -> Value | None:
    """Return the value of a record, or None if there is none of this name."""
    try:
        return parse_record(store.get(name), kind, place_of(store, name))
    except MissingObjectError:
        return None


def place_of(store: Store, name: str) -> str:
    """Return where an object is, for people."""
    return f"{store.location}/{name}"
