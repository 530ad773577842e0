"""A step that was begun is run again from its journal, with the same input. If that is gone, a further attempt leaves
it out, and says what may be missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from headrace.engine.edge_inbox import FOLDER
from headrace.engine.step.watermark import BEGINNING_US, ENDED_US
from headrace.inputs import BadFile
from headrace.model.errors import UsageError
from headrace.model.units import RESULTS
from headrace.storage.directory import Directory
from headrace.storage.records import CountedSpan, Journal, LeftOut, TakenFrame

PUT_BACK = "put it back as it was: a step that has begun reads what it began with"
ABANDONED = "abandoned, since it was gone"


def changed_input(directory: Directory, journal: Journal) -> Iterator[tuple[str, OSError | None]]:
    """Yield files and frames of a step that can't be read any more, with the error, or that have changed."""
    left_out = {file.path for file in journal.bad_files}
    looks = {file.path: (file.size, file.modified_ns) for file in journal.files}
    left_out |= {directory.place(entry.name) for entry in directory.store.list(FOLDER)} if journal.frames else set()
    left_out |= {unit.path for unit in journal.units if unit.kind == RESULTS}
    for path in (path for path in {**looks, **{unit.path: None for unit in journal.units}} if path not in left_out):
        try:
            status = os.stat(path)
        except OSError as problem:
            yield path, problem
            continue
        if path in looks and looks[path] != (status.st_size, status.st_mtime_ns):
            yield path, None


def check_unchanged(directory: Directory, journal: Journal) -> None:
    """Raise an error if a step that is run again would not read the files that it began with."""
    files = {file.path for file in journal.files}
    for path, problem in changed_input(directory, journal):
        if path in files and problem is not None:
            message = f"step {journal.step} began with it, and it can't be read"
            raise BadFile(path, message, str(problem), PUT_BACK)
        if path in files:
            raise BadFile(path, f"it has changed since step {journal.step} began with it", hint=PUT_BACK)


def gone_input(directory: Directory, journal: Journal) -> dict[str, str]:
    """Return the input of a step that is not what it was, with what is wrong."""
    return {
        path: "has changed" if problem is None else problem.strerror or "can't be read"
        for path, problem in changed_input(directory, journal)
    }


def abandon_input(directory: Directory, step: int, skew_us: int) -> Journal:
    """Journal a further attempt at a step without the input that is gone. The caller owns the directory."""
    journal = directory.newest_journal(step)
    assert journal is not None
    gone = gone_input(directory, journal)
    if not gone:
        problem = f"all input of step {step} is there"
        raise UsageError("nothing-lost", problem, hint="start the job again: it is run with that")
    places = {directory.place(f"{FOLDER}/{frame.name}"): frame for frame in journal.frames}
    frames = [frame for place, frame in places.items() if place in gone]
    is_file = any(path not in places for path in gone)
    attempt = replace(
        journal,
        attempt=directory.attempts(step),
        units=tuple(unit for unit in journal.units if unit.path not in gone),
        frames=tuple(frame for frame in journal.frames if frame not in frames),
        quarantined=(*journal.quarantined, *(LeftOut(path, f"{ABANDONED}: {gone[path]}") for path in gone)),
        lost=(*journal.lost, *spans_of_frames(frames), *([unknown_span(journal, skew_us)] if is_file else [])),
    )
    if not directory.write_journal(attempt):
        raise UsageError("state-lost", f"another engine works on step {step}")
    return attempt


def spans_of_frames(frames: Iterable[TakenFrame]) -> list[CountedSpan]:
    return [
        CountedSpan("", frame.lowest_us, frame.highest_us + 1)
        for frame in frames
        if frame.lowest_us is not None and frame.highest_us is not None
    ]


def unknown_span(journal: Journal, skew_us: int) -> CountedSpan:
    """Where rows of a file may be that nobody can look at: up to the clock and the skew, without a clock anywhere."""
    is_limited = journal.clock_us is not None and not journal.ended
    return CountedSpan("", BEGINNING_US, (journal.clock_us or 0) + skew_us + 1 if is_limited else ENDED_US)
