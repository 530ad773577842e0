"""Compiled loops over the rows of a node and the leaves below it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.kernel.jit import compiled
from headrace.model.arrays import Integers, Mask


@compiled
def count_passing(cells: Integers, passes: Mask, counts: Integers) -> None:
    """How many rows are in cells that pass, for each leaf."""
    for leaf in range(len(passes)):
        count = 0
        for row in range(len(cells)):
            count += passes[leaf, np.uint64(cells[row])]
        counts[leaf] = count


@compiled
def take_passing(
    cells: Integers,
    passes: Mask,
    slices: Integers,
    groups: npt.NDArray[np.int32],
    firsts: Integers,
    rows: Integers,
    keys: Integers,
) -> None:
    """Leaf by leaf the rows that pass, and the key of each, from its slice in the leaf and its group."""
    taken = 0
    for leaf in range(len(passes)):
        for row in range(len(cells)):
            if passes[leaf, np.uint64(cells[row])]:
                rows[taken] = row
                keys[taken] = firsts[leaf, np.uint64(slices[row])] + groups[row]
                taken += 1
