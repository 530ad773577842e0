"""How an agent runs, and how far it is: values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.edge.intake import Refused
from headrace.wire.frames import RowCounts


class Mode(Enum):
    """Until it is stopped; what is there, and then stop; the same, and the stream has ended."""

    LIVE = "live"
    ONCE = "once"
    BOUNDED = "bounded"


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things are done, and how much may wait."""

    every_s: float = 1.0
    heartbeat_s: float = 10.0
    poll_s: float = 2.0
    spool_bytes: int = 256 << 20
    memory_bytes: int = 4 << 20
    patience_s: float = 10.0
    """How long frames that can't be sent keep an agent from stopping, and the lack of a plan from reading on."""


@dataclass(frozen=True, slots=True)
class AgentProgress:
    """How far an agent is since its start. `problem` is why nothing goes up, or nothing comes down, `refused` why rows
    were bad.
    """

    rows: RowCounts
    frames_sent: int
    bytes_sent: int
    frames_waiting: int
    bytes_waiting: int
    has_orders: bool
    plan: str | None
    watermark_us: int | None
    datagrams_dropped: int
    problem: str | None
    refused: tuple[Refused, ...] = ()
