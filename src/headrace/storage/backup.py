"""Copies of a state: all that its last commit needs, under the same names, in a directory or an object store.

A copy is a state itself. It can be taken while the job runs: what a commit names never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from headrace.model.errors import UsageError
from headrace.storage.directory import (
    FORMAT,
    STATES,
    Directory,
    commit_name,
    content_name,
    journal_name,
    list_states,
    object_name,
)
from headrace.storage.disk import DamagedError
from headrace.storage.garbage import plans_in
from headrace.storage.records import Commit
from headrace.storage.results import read_manifest, results_of
from headrace.storage.seen_files import list_name
from headrace.storage.store import (
    MissingObjectError,
    Store,
    is_remote,
    open_store,
    place_of,
    read_object,
    store_threads,
)

ATTEMPTS = 5
"""How often a copy is begun again because the job deleted what it does not need any more."""
WHOLE_FOLDERS = ("epochs", "registry", "rejected", "cursors", "spark")
"""What is copied as it is. Spark's own checkpoint is there if rows come from a streaming dataframe."""

Report = Callable[[int, int], None]
"""Takes how many objects are copied, and how many there are."""


def back_up(job: Store, target: Store, report: Report) -> dict[str, int]:
    """Copy the states of a job, or a copy of them back; return the step of each.

    Raises:
        UsageError: The job has no state, or there is something in the target.
    """
    states = list_states(job)
    if not states:
        raise UsageError("state", f"there is no state in {job.location}", hint="headrace run makes it")
    check_empty(target)
    steps = {}
    for name in states:
        directory = Directory(open_store(place_of(job, name)))
        steps[name] = copy_state(directory, open_store(place_of(target, name)), report)
        if is_remote(target.location):
            target.create(f"{STATES}/{name}", b"")
    with suppress(MissingObjectError):  # no folder of results has asked for it yet
        copy_object(job, target, "identity")
    return steps


def check_empty(store: Store) -> None:
    if states := list_states(store):
        problem = f"there is a state in {store.location} already, of {', '.join(states)}"
        raise UsageError("state", problem, hint="name an empty place, or move that one away")


def copy_state(directory: Directory, target: Store, report: Report) -> int:
    """Copy what the last commit needs. The format comes last: without it there is no state."""
    for attempt in range(ATTEMPTS):
        commit = directory.last_commit()
        try:
            names = sorted(set(closure(directory, commit)) if commit is not None else set())
            copies = store_threads().map(lambda name: copy_object(directory.store, target, name), names)
            for place, _ in enumerate(copies):
                report(place + 1, len(names))
            break
        except (MissingObjectError, DamagedError):
            if attempt == ATTEMPTS - 1:
                raise
    copy_object(directory.store, target, FORMAT)
    return commit.step if commit is not None else 0


def copy_object(source: Store, target: Store, name: str) -> None:
    target.put(name, source.get(name))


def closure(directory: Directory, commit: Commit) -> Iterator[str]:
    """Yield the names of all objects that a state at a commit needs."""
    store, steps = directory.store, directory.steps()
    kept = [step for step in steps if min(commit.all_queries, commit.step - 1) <= step <= commit.step]
    yield from map(commit_name, kept)
    for record in (directory.commit(step) for step in kept):
        yield from written_objects(directory, record)
    for place, ref in enumerate(commit.manifests):
        if ref is not None:
            yield object_name("manifests", ref.step, place, ref.id)
            yield from (part.object.name for part in read_manifest(store.location, place, ref).slices)
    yield from contents(store, "plans", plans_in(commit))
    yield from contents(store, "tables", commit.tables.values())
    if commit.inputs:
        yield list_name(commit.inputs)
    yield from (journal_name(step) for step in range(commit.inputs + 1, commit.step + 1))
    yield journal_name(commit.step, commit.attempt)
    yield from (file.staged.name for file in commit.rejected if has_object(store, file.staged.name))
    for folder in WHOLE_FOLDERS:
        yield from (entry.name for entry in store.list(folder))
    if has_object(store, "sample.arrow"):
        yield "sample.arrow"


def written_objects(directory: Directory, commit: Commit) -> Iterator[str]:
    """Yield the results that a step wrote, which a sink may not have yet, and the manifests that name them."""
    for place, ref in enumerate(commit.manifests):
        if ref is not None and ref.step == commit.step:
            yield object_name("manifests", ref.step, place, ref.id)
    yield from (results.object.name for results in results_of(directory, commit))


def contents(store: Store, folder: str, digests: Iterable[str]) -> Iterator[str]:
    """Yield the objects of plans or tables that are known by their digests."""
    wanted = set(digests)
    for entry in store.list(folder):
        if content_name(entry.name.rpartition("/")[2])[1] in wanted:
            yield entry.name


def has_object(store: Store, name: str) -> bool:
    try:
        read_object(store, name)
    except DamagedError:
        return False
    return True
