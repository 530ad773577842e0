"""A step whose input is gone: a further attempt at it leaves that input out, and says what may be missing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from headrace.engine.step.watermark import BEGINNING_US, ENDED_US
from headrace.model.errors import UsageError
from headrace.storage.directory import Directory
from headrace.storage.records import Journal, LeftOut, Span, TakenFrame

ABANDONED = "abandoned, since it was gone"


def gone_input(journal: Journal) -> dict[str, str]:
    """Files and frames of a step that can't be read any more, or have changed, with what is wrong."""
    left_out = {file.path for file in journal.bad_files}
    problems = {}
    looks = {file.path: (file.size, file.modified_ns) for file in journal.files}
    for path in (path for path in {**looks, **{unit.path: None for unit in journal.units}} if path not in left_out):
        try:
            status = os.stat(path)
        except OSError as problem:
            problems[path] = problem.strerror or "can't be read"
            continue
        if path in looks and looks[path] != (status.st_size, status.st_mtime_ns):
            problems[path] = "has changed"
    return problems


def abandon_input(directory: Directory, step: int, skew_us: int) -> Journal:
    """Journal a further attempt at a step without the input that is gone. The caller owns the directory."""
    journal = directory.newest_journal(step)
    assert journal is not None
    gone = gone_input(journal)
    if not gone:
        problem = f"all input of step {step} is there"
        raise UsageError("nothing-lost", problem, hint="start the job again: it is run with that")
    frames = [frame for frame in journal.frames if any(Path(path).name == frame.name for path in gone)]
    is_file = any(path not in {str(directory.root / "frames" / frame.name) for frame in frames} for path in gone)
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


def spans_of_frames(frames: Iterable[TakenFrame]) -> list[Span]:
    return [
        Span("", frame.lowest_us, frame.highest_us + 1)
        for frame in frames
        if frame.lowest_us is not None and frame.highest_us is not None
    ]


def unknown_span(journal: Journal, skew_us: int) -> Span:
    """Where rows of a file may be that nobody can look at: up to the clock and the skew, without a clock anywhere."""
    is_limited = journal.clock_us is not None and not journal.ended
    return Span("", BEGINNING_US, (journal.clock_us or 0) + skew_us + 1 if is_limited else ENDED_US)
