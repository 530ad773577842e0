"""SQL files on the command line, and the Python files that hold their functions."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

from headrace.aggregates.registry import with_functions
from headrace.aggregates.user import DeclaredAggregate
from headrace.inputs.text_file import STANDARD_INPUT, read_text
from headrace.model.errors import HeadraceError, UsageError, nearest
from headrace.model.query import Query
from headrace.model.schema import Catalog, Stream, UserFunction
from headrace.sql import Script, ScriptReader


def read_functions(path: str | None) -> Catalog:
    """Return a catalog of the user functions and aggregates that a Python file defines."""
    if path is None:
        return Catalog()
    specification = importlib.util.spec_from_file_location("headrace_user_functions", path)
    if specification is None or specification.loader is None:
        raise UsageError("functions", f"{path} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    try:
        specification.loader.exec_module(module)
    except Exception as problem:  # whatever the user's file raises is the user's to fix
        raise UsageError(
            "functions", f"{path} can't be loaded", detail=f"{type(problem).__name__}: {problem}"
        ) from problem
    functions = [value for value in vars(module).values() if isinstance(value, UserFunction | DeclaredAggregate)]
    if not functions:
        hint = "decorate them with @headrace.user_function or @headrace.user_aggregate"
        raise UsageError("functions", f"{path} defines no user functions or aggregates", hint=hint)
    return with_functions(Catalog(), functions)


def read_script(
    text: str,
    catalog: Catalog,
    report: list[HeadraceError],
    readable: Mapping[str, Query] | None = None,
    *,
    file: str | None = None,
) -> Script:
    """Return what of `text` can be read, and append each mistake to `report`, with its spot and its file."""
    reader = ScriptReader(text, catalog, readable)
    for outcome in reader.statements():
        if isinstance(outcome, HeadraceError):
            outcome.file = None if file == STANDARD_INPUT else file
            report.append(outcome)
    return reader.script()


def read_schema(schema: Path, functions: Path | None) -> Script:
    """Read a file of declarations, and the functions that its queries may call. All mistakes are raised."""
    report: list[HeadraceError] = []
    catalog = read_functions(None if functions is None else str(functions))
    script = read_script(read_text(str(schema)), catalog, report, file=shorten_path(schema))
    check_report(report)
    return script


def find_stream(catalog: Catalog, name: str, file: Path, schema: Path) -> Stream:
    """Return the stream that a document names. Its schema must declare it."""
    stream = catalog.stream(name)
    if stream is None:
        names = [stream.name for stream in catalog.streams]
        hint = nearest(name, names) or f"it declares {', '.join(names) or 'none'}"
        raise UsageError("job", f"{file}: {schema.name} declares no stream '{name}'", hint=hint)
    return stream


def shorten_path(path: Path) -> str:
    """Return a path relative to the working directory if it lies below it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith(os.pardir) else relative


def check_report(report: list[HeadraceError]) -> None:
    """Raise all mistakes of a script at once."""
    if len(report) == 1:
        raise report[0]
    if report:
        raise MistakesError(report)


class MistakesError(HeadraceError):
    """Several mistakes of one script."""

    def __init__(self, mistakes: list[HeadraceError]) -> None:
        super().__init__("mistakes", f"{len(mistakes)} mistakes")
        self.mistakes = mistakes

    def __str__(self) -> str:
        return "\n\n".join([*map(str, self.mistakes), f"{len(self.mistakes)} mistakes"])
