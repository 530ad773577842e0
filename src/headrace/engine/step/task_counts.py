"""What one task of partial aggregation counted, and the sum over tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.storage.records import ResultFile, Totals, UnitRead


@dataclass(slots=True)
class Counted:
    """What a task counted. Partitions have the highest event time that each sent; errors are by query."""

    totals: Totals = field(default_factory=Totals)
    errors: dict[str, int] = field(default_factory=dict)
    highest_us: dict[str, int] = field(default_factory=dict)
    start_us: int | None = None
    end_us: int | None = None
    node_rows: int = 0
    rejected: list[ResultFile] = field(default_factory=list)
    units: list[UnitRead] = field(default_factory=list)

    @property
    def dataframe_rows(self) -> int:
        """The rows that were read of no unit."""
        return self.totals.rows - sum(unit.rows for unit in self.units if not unit.is_partials)

    def plus(self, other: Counted) -> Counted:
        starts = [each for each in (self.start_us, other.start_us) if each is not None]
        ends = [each for each in (self.end_us, other.end_us) if each is not None]
        return Counted(
            self.totals.plus(other.totals),
            add_counts(self.errors, other.errors),
            {
                key: max(each[key] for each in (self.highest_us, other.highest_us) if key in each)
                for key in self.highest_us | other.highest_us
            },
            min(starts, default=None),
            max(ends, default=None),
            self.node_rows + other.node_rows,
            self.rejected + other.rejected,
            self.units + other.units,
        )


def add_counts(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in {**first, **second}}
