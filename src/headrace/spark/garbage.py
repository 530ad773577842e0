"""What no record names any more is deleted: after a commit, and when an engine starts where another died.

Only files of steps up to the last commit are touched: nobody can commit those steps any more, so an engine that still
runs and has lost the directory can't miss them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from headrace.spark.context import ResultFolder
from headrace.spark.directory import Directory
from headrace.spark.disk import TEMPORARY
from headrace.spark.records import Commit

KEPT_RECORDS = 100
"""So many commit records, and what they name, are kept to look back at."""
KEPT_ANSWERS = 1_000
STAGED = re.compile(r"^\.step-(\d{9})")


def collect_garbage(directory: Directory, commit: Commit, tables: Mapping[str, str]) -> None:
    """After a commit."""
    oldest = commit.step - KEPT_RECORDS
    root = directory.root
    delete(root / "slices", lambda name: step_of(name) <= commit.step, {file.file.name for file in commit.slices})
    delete(root / "commits", lambda name: step_of(name) < oldest)
    delete(root / "journal", lambda name: step_of(name) < min(oldest, commit.inputs + 1))
    delete(root / "inputs", lambda name: step_of(name) < commit.inputs)
    if commit.step % KEPT_RECORDS == 0:
        versions = [directory.commit(step).registry for step in directory.steps()]
        delete(root / "registry", lambda name: step_of(name) < min(versions))
        named = {commit.plan, *(span.plan for span in commit.spans), *commit.plans}
        plans = {f"plans/{name}.json" for name in named}
        delete(root / "plans", lambda name: not name.startswith("."), plans)
        used = {f"tables/{version}.arrow" for version in (*commit.tables.values(), *tables.values())}
        delete(root / "tables", lambda name: not name.startswith("."), used)


def sweep(directory: Directory, results: Sequence[ResultFolder], step: int) -> None:
    """When an engine starts: what one that died left half done."""
    for folder in (directory.root, *(Path(each.path) for each in results)):
        for parent, _, names in os.walk(folder):
            if Path(parent).relative_to(folder).parts[:1] in (("inbox",), ("exchange",)):
                continue  # another process may be writing a request, or a frame
            for name in names:
                found = STAGED.match(name)
                if name.startswith(TEMPORARY) or (found and int(found[1]) <= step):
                    Path(parent, name).unlink(missing_ok=True)


def forget_answers(directory: Directory) -> None:
    """Answers that nobody waited for, but for the newest."""
    names = sorted(entry.name for entry in os.scandir(directory.root / "outbox"))
    delete(directory.root / "outbox", set(names[:-KEPT_ANSWERS]).__contains__)


def step_of(name: str) -> int:
    """The step in a file's name; a file without one is of no step yet."""
    return int(name[:9]) if name[:9].isdigit() else 1 << 62


def delete(folder: Path, is_old: Callable[[str], bool], named: Iterable[str] = ()) -> None:
    kept = set(named)
    for entry in os.scandir(folder):
        if entry.is_file() and is_old(entry.name) and f"{folder.name}/{entry.name}" not in kept:
            os.unlink(entry.path)
