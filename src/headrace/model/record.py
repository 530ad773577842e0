"""The base of what is stored or sent as JSON: steps, frames, ledgers, what an edge knows."""

from __future__ import annotations

import os
from threading import RLock
from typing import Annotated, TypeVar

import msgspec

Value = TypeVar("Value")
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A number of things that fits into 64 bits."""
Time = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Microseconds since the epoch, or nanoseconds where a name says so."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value with typed fields. Decoding one refuses a field that it does not have and a value of another type, so
    that a record of a later version is not read as if nothing were missing.
    """


class Conversion:
    """The lock of all conversions. msgspec looks at a type when it is first used, and crashes in a thread that uses the
    same type meanwhile. A record may convert its own fields.
    """

    lock = RLock()


def forget_lock() -> None:
    """Take a new lock: another thread may hold the old one in a process that was forked."""
    Conversion.lock = RLock()


os.register_at_fork(after_in_child=forget_lock)


def convert(value: object, kind: type[Value], *, str_keys: bool = False) -> Value:
    """Return a value of a type from what JSON holds; raise a ValueError if it is not of that type."""
    with Conversion.lock:
        return msgspec.convert(value, kind, str_keys=str_keys)
