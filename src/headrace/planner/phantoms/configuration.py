"""A configuration: the tables of an edge, as a tree that rows of the stream enter at the top."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EdgeTable:
    """Groups by some attributes, in `entries` entries. It is fed by what its parent evicts, or by the stream;
    what a query evicts leaves the edge, and a phantom is no query.
    """

    attributes: frozenset[str]
    parent: int | None
    is_query: bool
    entries: int

    def __post_init__(self) -> None:
        if not self.attributes:
            raise ValueError("a table groups by at least one attribute")
        if self.entries < 1:
            raise ValueError(f"a table of {self.entries} entries holds nothing")


@dataclass(frozen=True, slots=True)
class Configuration:
    """Parents come before their children, which group by fewer attributes."""

    tables: tuple[EdgeTable, ...]

    def __post_init__(self) -> None:
        for place, table in enumerate(self.tables):
            if table.parent is None:
                continue
            if not 0 <= table.parent < place:
                raise ValueError("the parent of a table comes before it")
            if not table.attributes < self.tables[table.parent].attributes:
                raise ValueError("a table groups by fewer attributes than the one that feeds it")

    def children(self, place: int | None) -> tuple[int, ...]:
        return tuple(number for number, table in enumerate(self.tables) if table.parent == place)

    @property
    def phantoms(self) -> tuple[int, ...]:
        return tuple(number for number, table in enumerate(self.tables) if not table.is_query)
