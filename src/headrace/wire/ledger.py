"""Which frames were taken. Pure values: a relay keeps them in the frames it sends, the root in its commit records.

Frames of an incarnation are taken in their order, each once. The first of a new incarnation must begin where the edge
was left, and after it the older ones have nothing more to say: else rows would be counted twice, or lost, and nobody
would know. A source without a position (a socket) says so, and is believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from headrace.model.errors import DataError
from headrace.model.record import Record, convert
from headrace.model.time import SECOND_US, later
from headrace.wire.frames import FrameCount, FrameError, FrameTime, Header, Member, Name, Position, RowCounts

MAX_INCARNATIONS = 16
"""The number of incarnations remembered of an edge; frames of one older than those are refused."""
BEGINNING: Position = {}
"""The position of a source that nothing was read of."""


class FrameVerdict(Enum):
    TAKE = "take"
    DUPLICATE = "duplicate"
    WAIT = "wait"


class Decision(NamedTuple):
    verdict: FrameVerdict
    reason: str = ""


class EdgeState(Record, frozen=True):
    """What is known of an edge. `sequences` has the last sequence number taken of each incarnation."""

    sequences: Mapping[int, FrameCount] = {}
    position: Position = BEGINNING
    plan: Name | None = None
    watermark_us: FrameTime | None = None
    highest_us: FrameTime | None = None
    rows: RowCounts = RowCounts()
    frames: FrameCount = 0
    bytes: FrameCount = 0
    ended: bool = False
    members: Mapping[Name, Member] = {}

    def after(self, header: Header, size: int) -> EdgeState:
        """With one frame more."""
        sequences = {**self.sequences, header.incarnation: header.sequence}
        kept = sorted(sequences)[-MAX_INCARNATIONS:]
        newest = header.incarnation == kept[-1]
        return EdgeState(
            {incarnation: sequences[incarnation] for incarnation in kept},
            header.position if newest else self.position,
            header.plan if newest else self.plan,
            later(self.watermark_us, header.watermark_us),
            later(self.highest_us, header.highest_us),
            self.rows.plus(header.rows),
            self.frames + 1,
            self.bytes + size,
            header.ended if newest else self.ended,
            header.members if newest else self.members,
        )


Ledger = Mapping[str, EdgeState]
"""By the names of edges."""


def decide(ledger: Ledger, header: Header) -> Decision:
    """What is to be done with a frame."""
    known = ledger.get(header.edge, EdgeState())
    last = known.sequences.get(header.incarnation, 0)
    if header.sequence <= last:
        return Decision(FrameVerdict.DUPLICATE)
    if not last and len(known.sequences) >= MAX_INCARNATIONS and header.incarnation < min(known.sequences):
        return Decision(FrameVerdict.DUPLICATE, "of an incarnation long gone")
    if header.begins is not None and header.incarnation < max(known.sequences, default=0):
        is_empty = header.begins == header.position
        reason = "a later start of the edge has gone on"
        return Decision(FrameVerdict.DUPLICATE if is_empty else FrameVerdict.WAIT, reason)
    if header.sequence > last + 1:
        return Decision(FrameVerdict.WAIT, f"frame {last + 1} before it is missing")
    if header.begins is not None and not last and header.begins != known.position:
        return Decision(
            FrameVerdict.WAIT, "it does not begin where the edge was left: was its state deleted? docs/edge.md"
        )
    return Decision(FrameVerdict.TAKE)


def take_frame(ledger: Ledger, header: Header, size: int) -> dict[str, EdgeState]:
    return {**ledger, header.edge: ledger.get(header.edge, EdgeState()).after(header, size)}


# Against frames that would shut out those that follow


class AheadError(FrameError):
    """A frame with a time that has not come yet."""

    def __init__(self, what: str, ahead_us: int, skew_us: int) -> None:
        ahead, skew = f"{ahead_us / SECOND_US:,.0f} s ahead of the clock here", f"{skew_us / SECOND_US:,g} s"
        hint = "set the clock of the edge"
        DataError.__init__(self, "refused", f"{what} is {ahead}; SKEW of the stream allows {skew}", hint=hint)


def check_times(header: Header, now_us: int, skew_us: int) -> None:
    """Raise an AheadError if an incarnation, watermark or event time is above the clock plus the skew.

    An edge whose ledger has such an incarnation could not be heard any more, and a watermark never goes back.
    """
    times_us = {"the start of the edge": header.incarnation, **marks_of("the frame", header)}
    for name, member in header.members.items():
        times_us |= marks_of(f"edge '{name}' in the frame", member)
    for what, time_us in times_us.items():
        if time_us is not None and time_us > now_us + skew_us:
            raise AheadError(what, time_us - now_us, skew_us)


def marks_of(owner: str, marks: Header | Member) -> dict[str, int | None]:
    return {
        f"the watermark of {owner}": marks.watermark_us,
        f"the highest event time of {owner}": marks.highest_us,
    }


# As JSON


def to_json(ledger: Ledger) -> dict[str, Any]:
    """Return the ledger as values of JSON, whose keys are texts."""
    document: dict[str, Any] = msgspec.to_builtins(ledger, str_keys=True)
    return document


def from_json(document: Mapping[str, Any]) -> dict[str, EdgeState]:
    try:
        return convert(document, dict[str, EdgeState], str_keys=True)
    except ValueError as problem:
        raise DataError("ledger", "this is no ledger of edges", detail=str(problem)) from None
