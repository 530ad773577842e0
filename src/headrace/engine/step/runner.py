"""What runs the tasks of a step: Spark, or this process."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from headrace.engine.step.context import StreamSetting, step_of
from headrace.engine.step.level1_task import ReducerInput, map_rows, map_units
from headrace.engine.step.level2_task import Reduced, reduce_step
from headrace.inputs import InputRows
from headrace.inputs.conversion import convert_table
from headrace.storage.records import Attempt


class Ran(NamedTuple):
    """What the reducers of a step did, and how many rows its dataframe had, by a count that level 1 has no part in."""

    reduced: list[Reduced]
    dataframe_rows: int | None = None


class Runner(Protocol):
    """What runs the tasks of a step."""

    def run(self, setting: StreamSetting, step: Attempt, rows: Any) -> Ran:
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

    def run(self, setting: StreamSetting, step: Attempt, rows: Any) -> Ran:
        pieces: list[ReducerInput] = []
        if rows is not None:
            for part in rows:
                converted = convert_table(part, setting.declared.columns, setting.declared.zone)
                pieces += map_rows(setting, step, [InputRows(converted.table, converted.rejected)])
        for share in step_of(setting, step).shares:
            pieces += map_units(setting, step, share)
        reduced = [
            reduce_step(setting, step, reducer, [piece for piece in pieces if piece.reducer == reducer])
            for reducer in range(setting.reducers)
        ]
        return Ran(reduced, None if rows is None else sum(part.num_rows for part in rows))
