"""How often a stream is cut."""

from __future__ import annotations

import pytest

from headrace.windows import Boundaries, boundaries_between, slices_per_hour

SECOND = 1_000_000


def test_slices_per_hour() -> None:
    fifteen, nine = Boundaries(15 * SECOND, (0, 12 * SECOND)), Boundaries(9 * SECOND, (0, 6 * SECOND))
    assert slices_per_hour([fifteen]) == pytest.approx(480)
    assert slices_per_hour([fifteen, nine]) == pytest.approx(
        len(boundaries_between([fifteen, nine], 0, 3_600 * SECOND))
    )
    assert slices_per_hour([fifteen, Boundaries(48 * 3_600 * SECOND, (0,))]) == pytest.approx(480 + 1 / 48)
    assert slices_per_hour([Boundaries(1, (0,)), Boundaries(2, (0,))]) == pytest.approx(3_600 * SECOND)
    assert slices_per_hour([]) == 0
