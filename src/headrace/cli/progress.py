"""A progress bar on standard error, for people only: silent when it is not a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Report(Protocol):
    def __call__(self, done: int, total: int, /) -> None: ...


@contextmanager
def progress_bar(title: str) -> Iterator[Report]:
    """Give a function to call with (done, total)."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)

        def report(done: int, total: int, /) -> None:
            bar.update(task, completed=done, total=total)

        yield report
