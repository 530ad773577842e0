"""Where results go: files, or a function in this process. `delivery` brings them there.

A new sink is one function and one line in `SINKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from headrace.model.errors import UsageError, nearest
from headrace.storage.disk import local_path


class ResultFolder(NamedTuple):
    """Where files of results go, one folder per query, and what they are."""

    path: str
    format: str


class Sink(Protocol):
    """Takes the results of one query in one step. After a crash the last step may come again."""

    def __call__(self, query: str, step: int, rows: pa.Table) -> None: ...


class Memory:
    """Keeps all results in this process, by query and step."""

    def __init__(self) -> None:
        self.steps: dict[str, dict[int, list[pa.Table]]] = {}

    def __call__(self, query: str, step: int, rows: pa.Table) -> None:
        self.steps.setdefault(query, {})[step] = [rows]

    def table(self, query: str) -> pa.Table | None:
        """Return all rows of the query so far; None if there are none."""
        parts = [table for tables in self.steps.get(query, {}).values() for table in tables]
        return pa.concat_tables(parts) if parts else None


class Callback:
    """Hands results to a function. An error in it ends the run, and names the query and the step."""

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


def make_file_sink(file_format: str) -> Callable[..., ResultFolder]:
    def make(path: Any = None) -> ResultFolder:
        if path is None:
            raise UsageError("sink", f"the {file_format} sink needs a path")
        return ResultFolder(str(local_path(path)), file_format)

    return make


def make_callback_sink(function: Any = None) -> Sink:
    if not callable(function):
        raise UsageError(
            "sink", "the callback sink needs function=, which takes the query, the step and an Arrow table"
        )
    return Callback(function)


def make_console_sink(rows: int = 5) -> Sink:
    """Return a sink that prints the newest rows of each query."""
    from headrace.engine.sinks.console import Console

    return Console(rows)


SINKS: Mapping[str, Callable[..., ResultFolder | Sink]] = {
    "parquet": make_file_sink("parquet"),
    "json": make_file_sink("json"),
    "memory": Memory,
    "callback": make_callback_sink,
    "console": make_console_sink,
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
