"""Query files on the command line: reading them, and the Python files that hold their functions."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from headrace.aggregates.registry import with_functions
from headrace.aggregates.user import DeclaredAggregate
from headrace.inputs.text_file import STANDARD_INPUT
from headrace.model.errors import HeadraceError, UsageError
from headrace.model.query import Query
from headrace.model.schema import Catalog, UserFunction
from headrace.sql import Script, ScriptReader


def read_functions(path: str | None) -> Catalog:
    """A catalog of the user functions that a Python file defines with `headrace.user_function`."""
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
    found = [value for value in vars(module).values() if isinstance(value, UserFunction | DeclaredAggregate)]
    if not found:
        hint = "decorate them with @headrace.user_function or @headrace.user_aggregate"
        raise UsageError("functions", f"{path} defines no user functions or aggregates", hint=hint)
    return with_functions(Catalog(), found)


def read_script(
    text: str,
    catalog: Catalog,
    report: list[HeadraceError],
    readable: Mapping[str, Query] | None = None,
    *,
    file: str | None = None,
) -> Script:
    """What of `text` can be read; the mistakes go into `report`, each with its spot and the file it is in."""
    reader = ScriptReader(text, catalog, readable)
    for outcome in reader.statements():
        if isinstance(outcome, HeadraceError):
            outcome.file = None if file == STANDARD_INPUT else file
            report.append(outcome)
    return reader.script()


def check_report(report: list[HeadraceError]) -> None:
    """Raise the mistakes of a script, all of them at once."""
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
