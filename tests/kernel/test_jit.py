"""Loops where no cache can be written."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from headrace.kernel.jit import UncachedWarning, compiled


def test_without_a_cache_loops_are_compiled_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def njit(*arguments: Any, cache: bool = False, **options: Any) -> Any:
        """As numba behaves where it finds no directory to write to."""
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*arguments, **options)

    monkeypatch.setattr(numba, "njit", njit)

    def total(values: Any) -> float:
        result = 0.0
        for value in values:
            result += value
        return result

    with pytest.warns(UncachedWarning, match="NUMBA_CACHE_DIR"):
        loop = compiled(total)
    assert loop(np.array([1.0, 2.5])) == 3.5
