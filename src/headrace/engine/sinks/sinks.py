"""Where results go. File sinks are written by the reducers and shown when the step is committed; the others are handed
each committed step's files by the driver.

A new sink is one function and one line in `SINKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.model.errors import UsageError, nearest
from headrace.storage.disk import local_path
from headrace.storage.records import Commit, ResultFolder


class Sink(Protocol):
    """Takes the results of one query in one step. After a crash the last step may be handed over again."""

    def __call__(self, query: str, step: int, rows: pa.Table) -> None: ...


class Memory:
    """Keeps all results in this process, by query and step."""

    def __init__(self) -> None:
        self.steps: dict[str, dict[int, list[pa.Table]]] = {}

    def __call__(self, query: str, step: int, rows: pa.Table) -> None:
        self.steps.setdefault(query, {})[step] = [rows]

    def table(self, query: str) -> pa.Table | None:
        """All rows of the query so far; None if there are none."""
        found = [table for tables in self.steps.get(query, {}).values() for table in tables]
        return pa.concat_tables(found) if found else None


class Callback:
    """Hands results to a function. What it raises ends the run, and says where."""

    def __init__(self, function: Sink) -> None:
        self.function = function

    def __call__(self, query: str, step: int, rows: pa.Table) -> None:
        try:
            self.function(query, step, rows)
        except Exception as problem:
            name = getattr(self.function, "__name__", type(self.function).__name__)
            raised = f"{type(problem).__name__}: {problem}"
            raise UsageError(
                "callback",
                f"the callback sink's function {name} failed on query '{query}', step {step}: {raised}",
                hint="the step is committed; at the next start it is handed over again",
            ) from problem


def file_sink(file_format: str) -> Callable[..., ResultFolder]:
    def make(path: Any = None) -> ResultFolder:
        if path is None:
            raise UsageError("sink", f"the {file_format} sink needs a path")
        return ResultFolder(str(local_path(path)), file_format)

    return make


def memory_sink() -> Memory:
    return Memory()


def callback_sink(function: Any = None) -> Sink:
    if not callable(function):
        raise UsageError(
            "sink", "the callback sink needs function=, which takes the query, the step and an Arrow table"
        )
    return Callback(function)


def console_sink(rows: int = 5) -> Sink:
    """Prints the first rows of each query's results."""
    from headrace.engine.sinks.console import Console

    return Console(rows)


SINKS: Mapping[str, Callable[..., ResultFolder | Sink]] = {
    "parquet": file_sink("parquet"),
    "json": file_sink("json"),
    "memory": memory_sink,
    "callback": callback_sink,
    "console": console_sink,
}


def make_sink(kind: str, options: Mapping[str, Any]) -> ResultFolder | Sink:
    if kind not in SINKS:
        raise UsageError(
            "sink", f"there is no sink '{kind}'", hint=nearest(kind, SINKS) or f"there are {', '.join(SINKS)}"
        )
    try:
        return SINKS[kind](**options)
    except TypeError as problem:
        raise UsageError("sink", f"the {kind} sink does not take these options: {problem}") from None


def hand_over(folder: ResultFolder, commit: Commit, sinks: Iterable[Sink]) -> None:
    """Give the committed results of a step to sinks, query by query."""
    takers = list(sinks)
    if not takers:
        return
    by_query: dict[str, list[pa.Table]] = {}
    for file in commit.results:
        if file.folder == 0:
            by_query.setdefault(file.query, []).append(pq.read_table(Path(folder.path) / file.name))
    for query, tables in by_query.items():
        for sink in takers:
            sink(query, commit.step, pa.concat_tables(tables))
