"""How loops are compiled: once per machine where a cache can be written, else once per process, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

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
