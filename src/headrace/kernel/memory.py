"""Memory of our own processes: what was freed is kept for the next batch."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 256 << 20
LARGE_BYTES = 32 << 20
"""The largest that the C library takes: arrays above are given back at once all the same."""


def keep_memory() -> None:
    """Let the C library keep what is freed, up to a size.

    A batch allocates and frees arrays of a few megabytes again and again. Given back each time, their pages are new
    the next time, and to get them takes a quarter of the time of a batch.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
