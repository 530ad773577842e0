"""What HIFI's text says of its figures 7 and 8: 523,761 SYN packets of one day, sets of 2 to 32 queries."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.hifi import FULL, PANED, PARTIAL, RAW, UNSHARED_PARTIAL

ROWS = 523_761
Figures = Mapping[int, Mapping[str, float]]
"""By number of queries, then by plan."""

TUPLES: Mapping[bool, Figures] = {
    False: {
        2: {RAW: ROWS, PANED: 86_278, PARTIAL: 177, FULL: 118},
        32: {RAW: ROWS, PANED: 86_278, PARTIAL: 1_920, FULL: 1_898},
    },
    True: {
        2: {RAW: ROWS, PARTIAL: 86_472},
        4: {RAW: ROWS, PANED: 455_401, FULL: 257_675},
        8: {RAW: ROWS, FULL: 512_535},
        32: {RAW: ROWS, PARTIAL: 183_910},
    },
}
"""Sent from the lower to the upper level, without and with groups [HIFI 6.2, figure 7]."""

SECONDS: Mapping[bool, Figures] = {
    False: {
        2: {UNSHARED_PARTIAL: 17, PANED: 13, PARTIAL: 11},
        32: {UNSHARED_PARTIAL: 241, PANED: 100, PARTIAL: 39},
    },
    True: {
        2: {UNSHARED_PARTIAL: 53, PANED: 94, PARTIAL: 33},
        32: {UNSHARED_PARTIAL: 1_013, PANED: 1_120, PARTIAL: 505},
    },
}
"""Of computation on one node [HIFI 6.3, figure 8]."""
