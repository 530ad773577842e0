"""Replies of a running engine to requests in the inbox of its state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from headrace.cli.job_file import Job
from headrace.engine.registry import answer_to, check_answer
from headrace.model.time import format_timestamp
from headrace.storage.directory import Directory, open_directory

POLL_S = 0.05


def open_state(job: Job, stream: str) -> Directory:
    """Open the state directory of a stream."""
    return open_directory(job.state / stream)


def wait_for_answer(directory: Directory, request: str, wait_s: float) -> Mapping[str, Any] | None:
    """Return the answer to a request, or None if none comes in time. Raise a refusal as an error."""
    until = time.monotonic() + wait_s
    while True:
        answer = answer_to(directory, request)
        if answer is not None:
            return check_answer(answer)
        left_s = until - time.monotonic()
        if left_s <= 0:
            return None
        pause(min(POLL_S, left_s))


def pause(seconds: float) -> None:
    time.sleep(seconds)


def describe_answer(done: str, answer: Mapping[str, Any] | None, directory: Directory, wait_s: float) -> str:
    """Return a sentence on what became of a request; `done` says what it is if it was granted."""
    if answer is None:
        return (
            f"no engine answered within {wait_s:g} s: the request stays in {directory.root / 'inbox'} "
            "and is taken with the first step when the job runs"
        )
    sentence = f"{done} in step {answer['step']}, version {answer['version']} of the registry"
    if "quarantine" in answer:
        sentence += f"; it is in quarantine: {answer['quarantine']}"
    if "start_us" in answer:
        start, end = (format_timestamp(answer[bound]) for bound in ("start_us", "end_us"))
        sentence += f"; its first complete window is {start} to {end}"
    if answer.get("left_out_count"):
        count = answer["left_out_count"]
        _, last_us = answer["left_out"][-1]
        until = f"up to {format_timestamp(last_us)}" if count == len(answer["left_out"]) else "behind it"
        sentence += f"; {count:,} windows {until} are left out, since slices kept for others can't answer them"
    return sentence
