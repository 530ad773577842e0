"""Work in threads: compiled loops and whole-column operations run side by side."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def available_cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(tasks: Sequence[Callable[[], Result]], threads: int) -> Iterator[Result]:
    """Results in the order of their tasks; no more tasks are begun ahead than there are threads."""
    if threads == 1 or len(tasks) == 1:
        yield from (task() for task in tasks)
        return
    with ThreadPoolExecutor(threads) as pool:
        begun: deque[Future[Result]] = deque()
        for task in tasks:
            begun.append(pool.submit(task))
            if len(begun) > threads:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
