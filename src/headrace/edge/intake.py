"""What a source brings: rows, and what was no row, counted by reason and with a sample."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from headrace.inputs import InputRows
from headrace.inputs.source import Declaration
from headrace.model.arrow import conform
from headrace.model.schema import Stream

MAX_REASONS = 16
"""Reasons counted separately; rows that are bad for any further reason are counted together."""
MAX_REASON, MAX_SAMPLE = 300, 100
"""Characters that are kept."""
OTHER = "other reasons"
Element = TypeVar("Element")


@dataclass(frozen=True, slots=True)
class Refused:
    """Input that is no row, for one reason. `is_reported`: the source has reported it already."""

    reason: str
    rows: int = 1
    sample: str = ""
    is_reported: bool = False


@dataclass(frozen=True, eq=False)
class Intake:
    """A piece of rows in declared types, and what was refused beside them."""

    table: pa.Table
    refused: tuple[Refused, ...] = ()

    @property
    def row_count(self) -> int:
        """Return how many rows came, good or bad."""
        return int(self.table.num_rows) + self.bad

    @property
    def bad(self) -> int:
        return sum(reason.rows for reason in self.refused)


def intake_of(rows: InputRows) -> Intake:
    """The rows that a reader found; those that it rejected are counted by reason."""
    reasons, refused = rows.rejected["reason"], []
    for count in reasons.value_counts() if len(reasons) else ():
        first = pc.index(reasons, count["values"]).as_py()
        sample = rows.rejected["raw"][first].as_py()
        refused.append(Refused(count["values"].as_py(), count["counts"].as_py(), sample))
        if len(refused) > MAX_REASONS:
            refused.append(Refused(OTHER, len(reasons) - sum(counted.rows for counted in refused)))
            break
    return Intake(rows.table, merge(refused))


def refused_only(stream: Stream, columns: Collection[str], *refused: Refused) -> Intake:
    """No row of these columns."""
    return Intake(conform(pa.table({}), Declaration.of(stream).select_columns(columns)), merge(refused))


def concat(pieces: Sequence[Intake]) -> Intake:
    table = pa.concat_tables([piece.table for piece in pieces]).combine_chunks()
    return Intake(table, merge(refused for piece in pieces for refused in piece.refused))


def runs_of(items: Iterable[Element], size: Callable[[Element], int], least: int) -> Iterator[list[Element]]:
    """Yield runs of items whose sizes add up to `least`; the last one may be shorter."""
    run: list[Element] = []
    for item in items:
        run.append(item)
        if sum(map(size, run)) >= least:
            yield run
            run = []
    if run:
        yield run


def merge(refused: Iterable[Refused]) -> tuple[Refused, ...]:
    """One for each reason, with the first sample; a bounded number of them."""
    by_reason: dict[str, Refused] = {}
    for item in refused:
        add(by_reason, item)
    return tuple(by_reason.values())


def add(by_reason: dict[str, Refused], refused: Refused) -> bool:
    """Whether the reason is new."""
    reason = refused.reason[:MAX_REASON]
    if reason not in by_reason and len(by_reason) >= MAX_REASONS:
        reason = OTHER
    known = by_reason.get(reason)
    if known is None:
        by_reason[reason] = replace(refused, reason=reason, sample=refused.sample[:MAX_SAMPLE])
        return True
    by_reason[reason] = replace(known, rows=known.rows + refused.rows)
    return False
