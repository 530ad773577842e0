"""The tasks of a step in this process, one after the other: for tests, and to see what Spark is given to do."""

from __future__ import annotations

from typing import Any

from headrace.engine.step.context import Setting, step_of
from headrace.engine.step.level1_task import Piece, map_rows, map_units
from headrace.engine.step.level2_task import reduce_step
from headrace.engine.step.stepper import Ran
from headrace.inputs import Rows
from headrace.inputs.conversion import convert_table
from headrace.storage.records import Attempt


class InProcess:
    """A runner without Spark."""

    def __init__(self, tasks: int = 1) -> None:
        self._tasks = tasks

    @property
    def tasks(self) -> int:
        return self._tasks

    def run(self, setting: Setting, step: Attempt, rows: Any) -> Ran:
        pieces: list[Piece] = []
        if rows is not None:
            for part in rows:
                found = convert_table(part, setting.declared.columns, setting.declared.zone)
                pieces += map_rows(setting, step, [Rows(found.table, found.rejected)])
        for share in step_of(setting, step).shares:
            pieces += map_units(setting, step, share)
        reduced = [
            reduce_step(setting, step, reducer, [piece for piece in pieces if piece.reducer == reducer])
            for reducer in range(setting.reducers)
        ]
        return Ran(reduced, None if rows is None else sum(part.num_rows for part in rows))
