"""What the tasks of partial aggregation counted, and the checks before a commit: the tasks read exactly the units of
the journal, and every row is accounted for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.model.errors import DataError
from headrace.storage.records import Journal, RejectedFile, StreamTotals, UnitRead


@dataclass(slots=True)
class Counted:
    """What a task counted. Partitions have the highest event time that each sent; errors are by query."""

    totals: StreamTotals = field(default_factory=StreamTotals)
    errors: dict[str, int] = field(default_factory=dict)
    highest_us: dict[str, int] = field(default_factory=dict)
    start_us: int | None = None
    end_us: int | None = None
    node_rows: int = 0
    rejected: list[RejectedFile] = field(default_factory=list)
    units: list[UnitRead] = field(default_factory=list)

    @property
    def dataframe_rows(self) -> int:
        """The rows that were read of no unit."""
        return self.totals.rows - sum(unit.rows for unit in self.units if not unit.is_partials)

    def plus(self, other: Counted) -> Counted:
        starts = [value for value in (self.start_us, other.start_us) if value is not None]
        ends = [value for value in (self.end_us, other.end_us) if value is not None]
        return Counted(
            self.totals.plus(other.totals),
            add_counts(self.errors, other.errors),
            {
                key: max(value[key] for value in (self.highest_us, other.highest_us) if key in value)
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


# Checks


class RowsLostError(DataError):
    """Rows that a step read and did not count, or counted twice. Nothing of the step was committed."""

    def __init__(self, step: int, problem: str) -> None:
        hint = "nothing was committed: start again, and the step is run again; if it stays, please report it"
        super().__init__("rows-lost", f"step {step} is not committed: {problem}", hint=hint)


def check_conserved(journal: Journal, counted: Counted, dataframe_rows: int | None) -> None:
    """Raise RowsLostError unless the step may be committed.

    `dataframe_rows` is the number of rows of the dataframe of the step, by a count that the tasks have no part in.
    """
    problem = (
        unit_problem(journal, counted)
        or dataframe_problem(counted.dataframe_rows, dataframe_rows or 0)
        or count_problem(counted.totals)
    )
    if problem:
        raise RowsLostError(journal.step, problem)


def unit_problem(journal: Journal, counted: Counted) -> str | None:
    """Each unit must have been read once, and have had as many rows as the journal says, if it does."""
    reads = Counter(unit.place for unit in counted.units)
    odd = [place for place in range(len(journal.units)) if reads[place] != 1]
    if odd:
        path = journal.units[odd[0]].path
        times = f"{reads[odd[0]]} times" if reads[odd[0]] else "not at all"
        return f"{len(odd)} of its {len(journal.units)} units were not read once; {path} was read {times}"
    for read in counted.units:
        unit = journal.units[read.place]
        if read.problem is None and unit.rows is not None and unit.rows != read.rows:
            return f"{read.rows:,} of {unit.rows:,} rows of {unit.path} were read"
    return None


def check_reducers(journal: Journal, reducers: Sequence[int]) -> None:
    """Raise RowsLostError unless each reducer of a step that ran reports once."""
    if reducers and sorted(reducers) != list(range(journal.partitioning.reducers)):
        raise RowsLostError(journal.step, f"of {journal.partitioning.reducers} reducers these reported: {reducers}")


def dataframe_problem(read: int, there: int) -> str | None:
    return None if read == there else f"{read:,} of {there:,} rows of the dataframe were read"


def count_problem(totals: StreamTotals) -> str | None:
    accounted = totals.bad + totals.untimed + totals.future + totals.admitted
    if totals.rows != accounted:
        return f"{totals.rows:,} rows were read, and {accounted:,} are in some count"
    expired = totals.dropped - totals.untimed
    return None if 0 <= expired <= totals.late <= totals.admitted else f"its counts contradict each other: {totals}"
