"""How loops are compiled: once per machine where a cache can be written, else once per process, with a warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
from numba.core.event import Event, Listener, install_listener

Loop = TypeVar("Loop", bound=Callable[..., Any])


class UncachedWarning(UserWarning):
    """Compiled loops can't be kept, so every process compiles them again."""


def compiled(loop: Loop) -> Loop:
    """A loop over arrays, compiled on its first call; it holds no lock of the interpreter."""
    try:
        return cast(Loop, numba.njit(cache=True, nogil=True)(loop))
    except RuntimeError:  # numba found no directory to write to
        warnings.warn(
            "no directory for compiled loops can be written: every process compiles them again. "
            "Set NUMBA_CACHE_DIR to a writable directory.",
            UncachedWarning,
            stacklevel=2,
        )
        return cast(Loop, numba.njit(nogil=True)(loop))


COMPILING = "headrace: compiling loops for this machine; later runs find them compiled"


class CompileAnnouncement(Listener):
    """Writes once per process, when the first loop is compiled rather than found in the cache."""

    was_made = False

    def on_start(self, event: Event) -> None:
        if not CompileAnnouncement.was_made:
            sys.stderr.write(f"{COMPILING}\n")
        CompileAnnouncement.was_made = True

    def on_end(self, event: Event) -> None:
        pass


@contextmanager
def announce_compile() -> Iterator[None]:
    """Write on standard error if loops are compiled meanwhile: it takes some seconds."""
    with install_listener("numba:compile", CompileAnnouncement()):
        yield
