"""Time a piece of work."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def time_call(work: Callable[[], Result]) -> tuple[float, Result]:
    """Return the seconds that the work took, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds that the work took. Its result is dropped at once: it may be large."""
    return time_call(work)[0]


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor time that the work took, whatever else the machine does."""
    start = time.process_time()
    work()
    return time.process_time() - start
