"""Requests to a job, through the inbox of its state: left there, and taken by the engine with its next step."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from headrace.cli.jobs import Job
from headrace.engine.registry import answer_to, check_answer
from headrace.model.time import format_timestamp
from headrace.storage.directory import Directory, open_directory

POLL_S = 0.05


def state_of_stream(job: Job, stream: str) -> Directory:
    return open_directory(job.state / stream)


def answer_within(directory: Directory, request: str, wait_s: float) -> Mapping[str, Any] | None:
    """The answer to a request, if one comes in time; a refusal is an error."""
    until = time.monotonic() + wait_s
    while True:
        found = answer_to(directory, request)
        if found is not None:
            return check_answer(found)
        left_s = until - time.monotonic()
        if left_s <= 0:
            return None
        pause(min(POLL_S, left_s))


def pause(seconds: float) -> None:
    time.sleep(seconds)


def told(what: str, answer: Mapping[str, Any] | None, directory: Directory, wait_s: float) -> str:
    """A sentence on what became of a request."""
    if answer is None:
        return (
            f"no engine answered within {wait_s:g} s: the request stays in {directory.root / 'inbox'} "
            "and is taken with the first step when the job runs"
        )
    sentence = f"{what} in step {answer['step']}, version {answer['version']} of the registry"
    if "quarantine" in answer:
        sentence += f"; it is in quarantine: {answer['quarantine']}"
    if "start_us" in answer:
        start, end = (format_timestamp(answer[bound]) for bound in ("start_us", "end_us"))
        sentence += f"; its first complete window is {start} to {end}"
    if answer.get("left_out_count"):
        count = answer["left_out_count"]
        _, last_us = answer["left_out"][-1]
        until = f"up to {format_timestamp(last_us)}" if count == len(answer["left_out"]) else "behind it"
        sentence += f"; {count:,} windows {until} are left out, since slices kept for others do not tell them"
    return sentence
