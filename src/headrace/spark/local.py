"""The tasks of a step in this process, one after the other: for tests, and to see what Spark is given to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.spark.context import Setting
from headrace.spark.inputs import Unit
from headrace.spark.mapping import Piece, map_rows, map_units
from headrace.spark.reducing import Reduced, reduce_step


class InProcess:
    """A runner without Spark."""

    def __init__(self, tasks: int = 1) -> None:
        self._tasks = tasks

    @property
    def tasks(self) -> int:
        return self._tasks

    def run(self, setting: Setting, step: int, tasks: Sequence[Sequence[Unit]], rows: Any) -> list[Reduced]:
        pieces: list[Piece] = []
        if rows is not None:
            for part in rows:
                pieces += map_rows(setting, step, [part])
        for units in tasks:
            pieces += map_units(setting, step, units)
        return [
            reduce_step(setting, step, reducer, [piece for piece in pieces if piece.reducer == reducer])
            for reducer in range(setting.reducers)
        ]
