"""What no record names any more is deleted: after a commit, and when an engine starts where another died.

Only objects of steps up to the last commit are touched, and only such as no later commit can name: so it does no harm
if an engine that has lost the state wakes up behind its commit and deletes them late. A state is listed only now and
then, since that is slow in an object store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from headrace.storage.directory import Directory, content_name
from headrace.storage.disk import TEMPORARY
from headrace.storage.records import Commit, ResultFolder
from headrace.storage.staged_results import staging_folder
from headrace.storage.store import Store, is_remote

KEPT_RECORDS = 100
"""How many commit records, with what they name, are kept to look back at."""
LISTED_EVERY = 64
"""Steps between listings of the state."""
KEPT_ANSWERS = 1_000
KEPT_ANSWERS_S = 300
"""Newer answers are kept even if there are more: many clients may wait at once."""
STAGED = re.compile(r"^\.step-(\d{9})")
"""As version 0.1 staged files, beside those that are shown."""


def collect_garbage(
    directory: Directory,
    before: Commit | None,
    commit: Commit,
    tables: Mapping[str, str],
    results: Sequence[ResultFolder] = (),
) -> None:
    """Delete after a commit what it leaves behind: `tables` are those that the next step will name."""
    named = {file.file.name for file in commit.slices}
    if before is not None:
        directory.store.delete([file.file.name for file in before.slices if file.file.name not in named])
    delete_staged(directory, results, commit.step)
    if commit.step % LISTED_EVERY == 0:
        collect_listed(directory, commit, {*commit.tables.values(), *tables.values()})


def collect_listed(directory: Directory, commit: Commit, tables: Collection[str]) -> None:
    """List the state, and delete all that was left behind, by attempts that failed too."""
    store, step = directory.store, commit.step
    oldest = step - KEPT_RECORDS
    named = {file.file.name for file in commit.slices}
    delete(store, "slices", lambda name: step_of(name) <= step and f"slices/{name}" not in named)
    delete(store, "commits", lambda name: step_of(name) < oldest)
    delete(store, "journal", lambda name: step_of(name) < min(oldest, commit.inputs + 1))
    delete(store, "inputs", lambda name: step_of(name) < commit.inputs)
    delete(store, "staged", lambda name: step_of(name) <= step)
    first_version = directory.commit(directory.steps()[0]).registry
    delete(store, "registry", lambda name: step_of(name) < first_version)
    delete_content(store, "plans", step, plans_in(commit))
    delete_content(store, "tables", step, tables)


def plans_in(commit: Commit | None) -> set[str]:
    """The plans that a commit names."""
    if commit is None:
        return set()
    names = (commit.plan, *(span.plan for span in commit.spans), *commit.plans)
    return {name for name in names if name}


def delete_content(store: Store, folder: str, step: int, live: Collection[str]) -> None:
    """Delete plans or tables that the commit of a step does not name, and that no later one can name: what is needed
    again was written again by a later step.
    """

    def is_old(name: str) -> bool:
        written, content = content_name(name)
        return written <= step and content not in live

    delete(store, folder, is_old)


def sweep(
    directory: Directory, results: Sequence[ResultFolder], commit: Commit | None, tables: Mapping[str, str]
) -> None:
    """When an engine starts: what one that died left half done. Others may show results in the same folders."""
    step = commit.step if commit else 0
    if not is_remote(directory.store.location):
        delete_temporaries(directory.root, step)
    delete_staged(directory, results, step)
    if commit is not None:
        collect_listed(directory, commit, {*commit.tables.values(), *tables.values()})


def delete_temporaries(root: Path, step: int) -> None:
    for parent, _, names in os.walk(root):
        if Path(parent).relative_to(root).parts[:1] in (("inbox",), ("exchange",)):
            continue  # another process may be writing a request, or a frame
        for name in names:
            staged = STAGED.match(name)
            if name.startswith(TEMPORARY) or (staged and int(staged[1]) <= step):
                Path(parent, name).unlink(missing_ok=True)


def delete_staged(directory: Directory, results: Sequence[ResultFolder], step: int) -> None:
    """Delete what attempts at steps that are committed staged and nobody shows."""
    for result in results:
        folder = staging_folder(Path(result.path), directory.name)
        if folder.exists():
            for entry in os.scandir(folder):
                if entry.is_file() and step_of(entry.name) <= step:
                    Path(entry.path).unlink(missing_ok=True)


def forget_answers(directory: Directory, now_s: float) -> None:
    """Delete old answers that nobody waited for. When they were asked for is in their names."""
    names = [entry.name for entry in directory.store.list("outbox")]
    until_ns = int((now_s - KEPT_ANSWERS_S) * 1e9)
    directory.store.delete(name for name in names[:-KEPT_ANSWERS] if asked_ns(name) < until_ns)


def asked_ns(name: str) -> int:
    time_ns = name.rpartition("/")[2][:20]
    return int(time_ns) if time_ns.isdigit() else 0


def step_of(name: str) -> int:
    """The step in a name; an object without one is of no step yet."""
    return int(name[:9]) if name[:9].isdigit() else 1 << 62


def delete(store: Store, folder: str, is_old: Callable[[str], bool]) -> None:
    """Delete the objects of a folder whose names are old."""
    store.delete([entry.name for entry in store.list(folder) if is_old(entry.name.rpartition("/")[2])])
