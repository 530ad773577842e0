"""What no record names any more is deleted: after a commit, and when an engine starts where another died.

Only files of steps up to the last commit are touched, and only such as no later commit can name: so it does no harm if
an engine that has lost the directory wakes up behind its commit and deletes them late.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from headrace.storage.directory import Directory, content_name
from headrace.storage.disk import TEMPORARY
from headrace.storage.records import Commit, ResultFolder
from headrace.storage.staged_results import staging_folder

KEPT_RECORDS = 100
"""How many commit records, with what they name, are kept to look back at."""
KEPT_ANSWERS = 1_000
KEPT_ANSWERS_S = 300
"""Newer answers are kept even if there are more: many clients may wait at once."""
STAGED = re.compile(r"^\.step-(\d{9})")
"""As version 0.1 staged files, beside those that are shown."""


def collect_garbage(
    directory: Directory, commit: Commit, tables: Mapping[str, str], results: Sequence[ResultFolder] = ()
) -> None:
    """Delete after a commit what it leaves behind: `tables` are those that the next step will name."""
    oldest = commit.step - KEPT_RECORDS
    root = directory.root
    delete(root / "slices", lambda name: step_of(name) <= commit.step, {file.file.name for file in commit.slices})
    delete(root / "commits", lambda name: step_of(name) < oldest)
    delete(root / "journal", lambda name: step_of(name) < min(oldest, commit.inputs + 1))
    delete(root / "inputs", lambda name: step_of(name) < commit.inputs)
    delete_staged(directory, results, commit.step)
    if commit.step % KEPT_RECORDS == 0:
        versions = [directory.commit(step).registry for step in directory.steps()]
        delete(root / "registry", lambda name: step_of(name) < min(versions))
        delete_content(root / "plans", commit.step, plans_in(commit))
        delete_content(root / "tables", commit.step, {*commit.tables.values(), *tables.values()})


def plans_in(commit: Commit | None) -> set[str]:
    """The plans that a commit names."""
    if commit is None:
        return set()
    names = (commit.plan, *(span.plan for span in commit.spans), *commit.plans)
    return {name for name in names if name}


def delete_content(folder: Path, step: int, live: Collection[str]) -> None:
    """Delete plans or tables that the commit of a step does not name, and that no later one can name: what is needed
    again was written again by a later step.
    """
    for entry in os.scandir(folder):
        if not entry.name.startswith("."):
            written, name = content_name(entry.name)
            if written <= step and name not in live:
                Path(entry.path).unlink(missing_ok=True)


def sweep(directory: Directory, results: Sequence[ResultFolder], step: int) -> None:
    """When an engine starts: what one that died left half done. Others may show results in the same folders."""
    for parent, _, names in os.walk(directory.root):
        if Path(parent).relative_to(directory.root).parts[:1] in (("inbox",), ("exchange",)):
            continue  # another process may be writing a request, or a frame
        for name in names:
            staged = STAGED.match(name)
            if name.startswith(TEMPORARY) or (staged and int(staged[1]) <= step):
                Path(parent, name).unlink(missing_ok=True)
    delete_staged(directory, results, step)


def delete_staged(directory: Directory, results: Sequence[ResultFolder], step: int) -> None:
    """Delete what attempts at steps that are committed staged and nobody shows."""
    for root in (directory.root, *(Path(result.path) for result in results)):
        folder = staging_folder(root, directory.root.name)
        if folder.exists():
            delete(folder, lambda name: step_of(name) <= step)


def forget_answers(directory: Directory, now_s: float) -> None:
    """Delete old answers that nobody waited for."""
    names = sorted(entry.name for entry in os.scandir(directory.root / "outbox"))
    for name in names[:-KEPT_ANSWERS]:
        path = directory.root / "outbox" / name
        with suppress(FileNotFoundError):  # a client took it meanwhile
            if path.stat().st_mtime < now_s - KEPT_ANSWERS_S:
                path.unlink()


def step_of(name: str) -> int:
    """The step in a file's name; a file without one is of no step yet."""
    return int(name[:9]) if name[:9].isdigit() else 1 << 62


def delete(folder: Path, is_old: Callable[[str], bool], named: Iterable[str] = ()) -> None:
    kept = set(named)
    for entry in os.scandir(folder):
        if entry.is_file() and is_old(entry.name) and f"{folder.name}/{entry.name}" not in kept:
            Path(entry.path).unlink(missing_ok=True)
