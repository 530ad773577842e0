"""Which reducer has which part of a state: groups hash to key groups, and each reducer owns a range of these."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

KEY_GROUPS = 4_096
"""Into how many key groups the groups of a state are hashed. A reducer owns a range of them."""
QUERIES_PER_COPY = 16
"""Queries without groups that make it worth to send their rows to one more reducer."""


class Partitioning(NamedTuple):
    """Which reducer has which rows. Those without groups are few, and to close hundreds of queries over them is the
    work: the first `copies` reducers have all of them, and share the queries.
    """

    reducers: int
    copies: int

    def key_groups(self, reducer: int) -> tuple[int, int]:
        """Return the range [first, end) of the key groups that a reducer owns."""
        return self.first_key_group(reducer), self.first_key_group(reducer + 1)

    def first_key_group(self, reducer: int) -> int:
        return -(-reducer * KEY_GROUPS // self.reducers)

    def owner_of_query(self, query: str) -> int:
        """Return the reducer that answers a query without groups, by its name."""
        return crc32(query.encode()) % self.copies


def choose_partitioning(reducers: int, ungrouped: int, known: Partitioning | None) -> Partitioning:
    """Return the partitioning for a number of reducers and of queries without groups.

    The number of copies changes only if the one before is far off: others then have to read what one reducer has.
    """
    copies = min(reducers, max(1, -(-ungrouped // QUERIES_PER_COPY)))
    if known is not None and known.reducers == reducers and known.copies <= 2 * copies <= 4 * known.copies:
        return known
    return Partitioning(reducers, copies)
