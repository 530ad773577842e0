"""What runs the tasks of a step: Spark, or this process."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from headrace.engine.step.context import Step, open_step, to_message
from headrace.engine.step.level1_task import ReducerInput, map_rows, map_units
from headrace.engine.step.level2_task import Reduced, reduce_step
from headrace.inputs import InputRows
from headrace.inputs.conversion import convert_table


class Ran(NamedTuple):
    """What the reducers of a step did, and how many rows its dataframe had, by a count that level 1 has no part in."""

    reduced: list[Reduced]
    dataframe_rows: int | None = None


class Runner(Protocol):
    """What runs the tasks of a step."""

    def run(self, step: Step, rows: Any) -> Ran:
        """Run level 1 over the units that the journal gives to each task, and over `rows`, then level 2."""

    @property
    def tasks(self) -> int:
        """How many tasks may run at once."""


class InProcess:
    """Runs the tasks in this process, one after the other: for tests, and to see what Spark is given to do."""

    def __init__(self, tasks: int = 1) -> None:
        self._tasks = tasks

    @property
    def tasks(self) -> int:
        return self._tasks

    def run(self, step: Step, rows: Any) -> Ran:
        mapped, reduced = (open_step(to_message(step, has_state=has_state)) for has_state in (False, True))
        stream = step.setting.declared
        pieces: list[ReducerInput] = []
        if rows is not None:
            for part in rows:
                converted = convert_table(part, stream.columns, stream.zone)
                pieces += map_rows(mapped, [InputRows(converted.table, converted.rejected)])
        for share in mapped.shares:
            pieces += map_units(mapped, share)
        outcomes = [
            reduce_step(reduced, reducer, [piece for piece in pieces if piece.reducer == reducer])
            for reducer in range(step.journal.partitioning.reducers)
        ]
        return Ran(outcomes, None if rows is None else sum(part.num_rows for part in rows))
