"""The attacks on states and partials once more, with every index of the compiled loops checked.

Compiled without a cache, since a cache does not tell checked loops from others: hence slow. The same attacks without
the checks are part of the tests of each kind of state.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernel.sketches.mutations import check_survived, needs_limit

MODULES = [
    *(f"tests.kernel.sketches.test_{kind}" for kind in ("buckets", "counters", "hll", "kll")),
    "tests.benchmarks.test_gk",
    "tests.edge.test_relay",
]


@needs_limit
@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_no_index_is_out_of_bounds(module: str, tmp_path: Path) -> None:
    check_survived(module, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
