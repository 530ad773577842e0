"""What no record names any more is deleted: after a commit, and when an engine starts where another died.

Only objects of steps up to the last commit are touched, and only such as no later commit can name: so it does no harm
if an engine that has lost the state wakes up behind its commit and deletes them late. A state is listed only now and
then, since that is slow in an object store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from headrace.storage.directory import Directory, content_name, object_name
from headrace.storage.disk import TEMPORARY, check_digest
from headrace.storage.records import Commit, RejectedFile
from headrace.storage.results import read_manifest
from headrace.storage.store import MissingObjectError, Store, is_remote, place_of, read_object, store_threads

KEPT_RECORDS = 100
"""How many commit records, with what they name, are kept to look back at."""
LISTED_EVERY = 64
"""Steps between listings of the state."""
KEPT_ANSWERS = 1_000
KEPT_ANSWERS_S = 300
"""Newer answers are kept even if there are more: many clients may wait at once."""
STAGED = re.compile(r"^\.step-(\d{9})")
"""As version 0.1 staged files, beside those that are shown."""


def collect_garbage(directory: Directory, commit: Commit, tables: Mapping[str, str], unneeded: Sequence[str]) -> None:
    """Delete after a commit what it leaves behind: `unneeded` are objects that the step before named, and `tables` are
    those that the next step will name.
    """
    if unneeded:
        directory.store.delete(unneeded)
    if commit.step % LISTED_EVERY == 0:
        collect_listed(directory, commit, {*commit.tables.values(), *tables.values()})


def collect_listed(directory: Directory, commit: Commit, tables: Collection[str]) -> None:
    """List the state, and delete all that was left behind, by attempts that failed too."""
    store, step = directory.store, commit.step
    slices = slices_in(directory, commit)
    delete(store, "slices", lambda name: step_of(name) <= step and f"slices/{name}" not in slices)
    delete(store, "journal", lambda name: step_of(name) < min(step - KEPT_RECORDS, commit.inputs + 1))
    delete(store, "inputs", lambda name: step_of(name) < commit.inputs)
    delete(store, "staged", lambda name: step_of(name) <= step)
    delete_content(store, "plans", step, plans_in(commit))
    delete_content(store, "tables", step, tables)
    delete_losers(directory, commit)


def delete_losers(directory: Directory, commit: Commit) -> None:
    """Delete manifests and results that attempts at the last steps wrote and no commit names."""
    steps = [step for step in directory.steps() if commit.step - LISTED_EVERY <= step <= commit.step]
    named: dict[int, set[str]] = {step: set() for step in steps}
    for record in store_threads().map(directory.commit, steps):
        named[record.step] |= {ref.id for ref in record.manifests if ref is not None and ref.step == record.step}
        named[record.step] |= {attempt_of(record.best.object.name)} if record.best is not None else set()

    def is_loser(name: str) -> bool:
        return attempt_of(name) not in named.get(step_of(name), {attempt_of(name)})

    for folder in ("manifests", "outputs"):
        delete(directory.store, folder, is_loser)


def attempt_of(name: str) -> str:
    """Return the id of the attempt that wrote an object."""
    return name.rpartition("-")[2].partition(".")[0]


def slices_in(directory: Directory, commit: Commit) -> set[str]:
    """Return the names of the slices that the manifests of a commit name."""
    location = directory.store.location
    refs = [(place, ref) for place, ref in enumerate(commit.manifests) if ref is not None]
    manifests = store_threads().map(lambda item: read_manifest(location, *item), refs)
    return {part.object.name for manifest in manifests for part in manifest.slices}


def collect_records(directory: Directory, commit: Commit, needed_step: int, kept_since_us: int | None) -> None:
    """Delete old commit records and the results that they name, but none of a step that somebody may still read, or
    whose clock is not older than a time.
    """
    store = directory.store
    steps = directory.steps()
    oldest = min(needed_step, commit.step - KEPT_RECORDS)
    if kept_since_us is not None:
        for step in (step for step in steps if step < oldest):
            clock_us = directory.commit(step).clock_us
            if clock_us is None or clock_us >= kept_since_us:
                oldest = step
                break
    named = {object_name("manifests", ref.step, place, ref.id) for place, ref in enumerate(commit.manifests) if ref}
    delete(store, "outputs", lambda name: step_of(name) < oldest)
    delete(store, "manifests", lambda name: step_of(name) < oldest and f"manifests/{name}" not in named)
    oldest_record = min(oldest, commit.all_queries)
    registry = directory.commit(max(steps[0], oldest_record)).registry
    delete(store, "registry", lambda name: step_of(name) < registry)
    delete(store, "commits", lambda name: step_of(name) < oldest_record)


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


def sweep(directory: Directory, commit: Commit | None, tables: Mapping[str, str]) -> None:
    """Delete what an engine that died left half done, when another starts."""
    step = commit.step if commit else 0
    if not is_remote(directory.store.location):
        delete_temporaries(directory.root, step)
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


def show_rejected(store: Store, files: Iterable[RejectedFile]) -> None:
    """Give committed rows that were not counted their names. It may have been done already."""
    for file in files:
        try:
            data = check_digest(store.get(file.staged.name), file.staged.digest, place_of(store, file.staged.name))
        except MissingObjectError:
            read_object(store, file.name, file.staged.digest)
        else:
            store.put(file.name, data)
            store.delete([file.staged.name])


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
