"""Quotas: how much the queries of a stream may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quotas:
    queries: int = 10_000
    state_bytes: int = 16 << 30
    groups: int = 10_000_000
    """Of one query, by the estimate from a sample when it is added."""
    seconds: float = 60.0
    """Of one query and step, to close its windows; beyond, it comes into quarantine with the next step."""
