"""Random draws that are the same on every machine.

Rows use only what IEEE arithmetic fixes to the last bit: uniform draws, the four operations, comparisons and lookups in
tables. Logarithms and powers, whose last bit depends on the processor, appear only in small tables, rounded before use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from headrace.model.arrays import Integers

Booleans = NDArray[np.bool_]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]

SLOTS = 1 << 20


def generator(seed: int, *path: int) -> np.random.Generator:
    """Return the random stream that belongs to one purpose (`path`) under a seed."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=path)))


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """Draws of 0, 1, 2, ... in proportion to weights, by lookup in a table of 2**20 slots.

    Shares are therefore rounded to a millionth; every outcome of positive weight keeps at least one slot.
    """

    slots: Codes

    @classmethod
    def by(cls, weights: ArrayLike) -> Weighted:
        """Return the table for weights of any sum."""
        cumulative = np.cumsum(np.asarray(weights, dtype=np.float64))
        outcomes = np.arange(len(cumulative))
        spare = SLOTS - len(cumulative)
        ends = np.rint(cumulative / cumulative[-1] * spare).astype(np.int64) + outcomes + 1
        return cls(np.repeat(outcomes, np.diff(ends, prepend=0)).astype(np.int32))

    def draw(self, rng: np.random.Generator, size: int) -> Codes:
        """Return `size` independent draws."""
        return self.slots[rng.integers(0, SLOTS, size, dtype=np.int32)]


def bell(rng: np.random.Generator, *shape: int) -> Floats:
    """Return draws of mean 0 and variance 1 with the shape of a bell: the sum of three uniforms."""
    draws: Floats = 2.0 * (rng.random(shape) + rng.random(shape) + rng.random(shape) - 1.5)
    return draws


def sample(rng: np.random.Generator, population: int, size: int) -> Integers:
    """Return `size` different numbers below `population`, in random order."""
    return np.argsort(rng.random(population), kind="stable")[:size].astype(np.int64)


def partition(rng: np.random.Generator, total: int, parts: int) -> Integers:
    """Split `total` into `parts` numbers of at least 1; the larger ones are a few times the mean."""
    squares = np.square(rng.random(parts))
    cumulative = np.cumsum(0.05 + squares * squares)
    ends = np.rint(cumulative / cumulative[-1] * (total - parts)).astype(np.int64) + np.arange(1, parts + 1)
    sizes: Integers = np.diff(ends, prepend=0)
    return sizes


def format_addresses(addresses: Integers) -> pa.StringArray:
    """Return 32-bit addresses as dotted quads."""
    quarters = [pc.cast(pa.array(addresses >> shift & 255), pa.string()) for shift in (24, 16, 8, 0)]
    return pc.binary_join_element_wise(*quarters, ".")


def hosts(rng: np.random.Generator, size: int) -> Integers:
    """Return `size` different addresses from 11.0.0.1 to 126.255.255.254, each in a /24 network of its own."""
    stride = (116 << 16) // size
    network = (11 << 16) + np.arange(size) * stride + rng.integers(0, stride, size)
    addresses = (network << 8) + rng.integers(1, 255, size)
    return addresses[sample(rng, size, size)]
