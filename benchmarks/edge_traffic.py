"""Packets for the edge: generated ones with all four attributes as codes, and ones of any number of groups [UDAF 6]."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.datasets import generate
from headrace.datasets.random_values import generator

Integers = npt.NDArray[np.int64]

UNIFORM, CLUSTERED = "uniform", "clustered"
KINDS = (UNIFORM, CLUSTERED)
PRESETS = {UNIFORM: "uniform", CLUSTERED: "gigascope"}
ATTRIBUTES = {"A": "SourceIP", "B": "DestIP", "C": "SourcePort", "D": "DestPort"}
RATE = 310_000
"""Packets a second at which the paper's traffic generator sends [UDAF 5]."""
FLOW_LENGTH = 32
OPEN_FLOWS = 8
"""As the generated packets of both kinds have them."""
SHORTEST, LONGEST = 64, 1_500
"""Bytes: 782 on average, as the paper's traffic generator makes them."""


@dataclass(frozen=True, slots=True, eq=False)
class Packets:
    """`codes` has a row for each of A to D, `sizes` their code spaces; `times` are timestamps."""

    kind: str
    codes: Integers
    sizes: Mapping[str, int]
    lengths: Integers
    times: pa.ChunkedArray

    def __len__(self) -> int:
        return len(self.lengths)

    def group_count(self, attributes: str) -> int:
        """How many different values these attributes have together."""
        mixed = np.zeros(len(self), dtype=np.int64)
        for name in attributes:
            mixed = mixed * self.sizes[name] + self.codes[list(self.sizes).index(name)]
        return len(np.unique(mixed))


def packets(kind: str, rows: int) -> Packets:
    """The data set `packets`: 2,837 groups of four attributes, alone or in flows [GS 6]."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "packets"
        generate("packets", rows, 1, folder, preset=PRESETS[kind], rate=RATE)
        table = pq.read_table(folder / "Packets")
    encoded = {name: table[column].combine_chunks().dictionary_encode() for name, column in ATTRIBUTES.items()}
    return Packets(
        kind,
        np.array([each.indices for each in encoded.values()], dtype=np.int64),
        {name: len(each.dictionary) for name, each in encoded.items()},
        table["Length"].to_numpy(),
        table["Time"],
    )


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Packets of one attribute, in slices of `slice_rows`."""

    kind: str
    groups: int
    codes: Integers
    lengths: Integers
    slice_rows: int

    def __len__(self) -> int:
        return len(self.lengths)


def trace(kind: str, groups: int, rows: int, slice_rows: int) -> Trace:
    rng = generator(1, KINDS.index(kind), groups)
    flow, flows = (np.arange(rows), rows) if kind == UNIFORM else interleaved(rng, rows)
    codes = rng.integers(0, groups, flows)[flow]
    return Trace(kind, groups, codes.reshape(1, -1), rng.integers(SHORTEST, LONGEST, rows), slice_rows)


def interleaved(rng: np.random.Generator, rows: int) -> tuple[Integers, int]:
    """The flow of each packet, and how many there are: packets take turns at random between the open ones."""
    place = rng.integers(0, OPEN_FLOWS, rows)
    by_place = np.argsort(place, kind="stable")
    begins = rng.random(rows) * FLOW_LENGTH < 1.0
    begins[np.flatnonzero(np.diff(place[by_place], prepend=-1))] = True
    flow = np.empty(rows, dtype=np.int64)
    flow[by_place] = np.cumsum(begins) - 1
    return flow, int(begins.sum())
