"""What is known of each relation: how many groups it has, how long its flows are, how many bytes an entry takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.planner.phantoms.relations import Relation

WORD_BYTES: Final = 8
"""Keys at an edge have a fixed width, and so have the counters and sums beside them."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Observed at run time. A mapping gives each its own value instead of one number for all: flow lengths of each
    relation, bytes of each attribute, bytes of each relation's aggregates.
    """

    groups: Mapping[Relation, float]
    flow_length: float | Mapping[Relation, float] = 1.0
    """Records of the stream that follow each other with the same group, on average [GS 4.3]."""
    attribute_bytes: int | Mapping[str, int] = WORD_BYTES
    aggregate_bytes: int | Mapping[Relation, int] = WORD_BYTES

    def groups_of(self, relation: Relation) -> float:
        if relation not in self.groups:
            raise ValueError(f"nobody counted the groups of ({', '.join(sorted(relation))})")
        return max(1.0, self.groups[relation])

    def flow_length_of(self, relation: Relation) -> float:
        length = self.flow_length
        return max(1.0, length if isinstance(length, (int, float)) else length[relation])

    def entry_bytes(self, relation: Relation) -> int:
        width = self.attribute_bytes
        keys = width * len(relation) if isinstance(width, int) else sum(width[name] for name in relation)
        states = self.aggregate_bytes
        return keys + (states if isinstance(states, int) else states[relation])
