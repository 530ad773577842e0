"""A stepper whose results are written to folders after each step, as a pipeline does beside the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.engine.sinks.delivery import Delivery
from headrace.engine.sinks.sinks import ResultFolder
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import Runner
from headrace.engine.step.stepper import Input, Stepper
from headrace.storage.records import Commit


class FileStepper(Stepper):
    def __init__(
        self,
        setting: StreamSetting,
        runner: Runner,
        folders: Sequence[ResultFolder] = (),
        *,
        reset_results: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(setting, runner, **options)
        try:
            self.delivery = Delivery(self.directory, folders, [], self.commit, reset=reset_results)
            self.delivery.drain()
        except BaseException:
            self.close()
            raise

    def step(self, available: Input) -> Commit | None:
        commit = super().step(available)
        if commit is not None:
            self.delivery.notify(commit)
            self.delivery.drain()
        return commit

    def close(self) -> None:
        if hasattr(self, "delivery"):
            self.delivery.close()
        super().close()
