"""How loops are compiled: once per machine where a cache can be written, else once per process, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
from numba.core.event import Event, Listener, install_listener

Loop = TypeVar("Loop", bound=Callable[..., Any])


class UncachedWarning(UserWarning):
    """Compiled loops can't be kept, so every process compiles them anew."""


def compiled(loop: Loop) -> Loop:
    """A loop over arrays, compiled on its first call; it holds no lock of the interpreter."""
    try:
        return cast(Loop, numba.njit(cache=True, nogil=True)(loop))
    except RuntimeError:  # numba found no directory to write to
        warnings.warn(
            "no directory for compiled loops can be written: every process compiles them anew. "
            "Set NUMBA_CACHE_DIR to a writable directory.",
            UncachedWarning,
            stacklevel=2,
        )
        return cast(Loop, numba.njit(nogil=True)(loop))


class FirstCompile(Listener):
    """Calls once, when the first loop is compiled rather than found in the cache."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.tell: Callable[[], None] | None = tell

    def on_start(self, event: Event) -> None:
        if self.tell is not None:
            self.tell()
        self.tell = None

    def on_end(self, event: Event) -> None:
        pass


@contextmanager
def telling(tell: Callable[[], None]) -> Iterator[None]:
    """While it lasts, a first compilation is told: it takes some seconds."""
    with install_listener("numba:compile", FirstCompile(tell)):
        yield
