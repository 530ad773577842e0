"""The base of what is stored or sent as JSON: steps, frames, ledgers, what an edge knows."""

from __future__ import annotations

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A number of things that fits into 64 bits."""
Time = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Microseconds since the epoch, or nanoseconds where a name says so."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value with typed fields. Decoding one refuses a field that it does not have and a value of another type, so
    that a record of a later version is not read as if nothing were missing.
    """
