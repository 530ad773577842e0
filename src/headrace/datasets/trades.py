"""Stock trades of one hour with the figures that OTF reports of its NYSE and NASDAQ data [OTF 4.3.3, 6.1].

1,138,636 trades from noon New York time on 2004-12-01. Half of the volumes are 100, the 15 most common make 90% of the
rows, fewer than 2,000 different ones occur, all between 10 and 1.6 million.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from headrace.datasets.kinds import Chunk, Columns, DataKind, Recipe, RowGenerator
from headrace.datasets.random_values import (
    Codes,
    Floats,
    Weighted,
    bell,
    generator,
    sample,
)
from headrace.model.arrays import Integers

SCHEMA_SQL = """\
CREATE STREAM Trades (Time TIMESTAMP, Symbol STRING, Price DOUBLE, Vol BIGINT) EVENT TIME Time LATENESS '5 s';
CREATE TABLE Close (Symbol STRING, CP DOUBLE);
CREATE TABLE Index (Symbol STRING, R3000 BOOLEAN, R2000 BOOLEAN, R1000 BOOLEAN);
"""

SYMBOLS = 8_000
SHORT_SYMBOLS = 2_800
UNLISTED_SYMBOLS = 40
LARGE_CAPS = 1_000
SMALL_CAPS = 2_000

COMMON_VOLUMES = {
    100: 500, 200: 130, 300: 65, 500: 55, 1_000: 42, 400: 38, 600: 16, 2_000: 15,
    800: 13, 700: 10, 900: 8, 1_500: 8, 5_000: 8, 3_000: 7, 2_500: 4,
}  # fmt: skip
"""Rows per thousand."""

RARE_VOLUMES = (
    (range(10, 100), 6.0),
    (range(101, 1_000), 15.0),
    (range(1_100, 50_100, 100), 59.0),
    (range(51_000, 251_000, 1_000), 0.8),
    (range(260_000, 1_610_000, 10_000), 0.2),
)
"""Families of volumes with their rows per thousand; within a family the frequency is inverse to the volume."""

KNOTS = 64
KNOT_US = 300_000_000


class Trades(RowGenerator):
    """Symbols with a close and a path of prices around it; a trade draws a symbol, a volume and a cent's difference."""

    def __init__(self, recipe: Recipe) -> None:
        rng = generator(recipe.seed, 1)
        self._start_us = recipe.start_us
        self._symbols = pa.array(_symbols(rng))
        self._popularity = Weighted.by(1.0 / (20.0 + np.arange(SYMBOLS)))
        self._volumes, weights = _volumes()
        self._volume_shares = Weighted.by(weights)
        self._close_cents = np.rint(np.clip(2_300 * np.exp(0.8 * bell(rng, SYMBOLS)), 90, 60_000))
        self._moves_ppm = _moves_ppm(rng)
        self._listed = np.sort(sample(rng, SYMBOLS, SYMBOLS - UNLISTED_SYMBOLS))
        self._by_size = np.argsort(np.arange(SYMBOLS) * (0.5 + rng.random(SYMBOLS)), kind="stable")

    def tables(self) -> Mapping[str, Columns]:
        """Return closes and index membership; new issues trade without a close, so they have no partner in a join."""
        close = {"Symbol": self._symbols.take(self._listed), "CP": self._close_cents[self._listed] / 100.0}
        large, small = np.zeros(SYMBOLS, dtype=bool), np.zeros(SYMBOLS, dtype=bool)
        large[self._by_size[:LARGE_CAPS]] = True
        small[self._by_size[LARGE_CAPS : LARGE_CAPS + SMALL_CAPS]] = True
        index = {"Symbol": self._symbols, "R3000": large | small, "R2000": small, "R1000": large}
        return {"Close": close, "Index": index}

    def columns(self, chunk: Chunk) -> Columns:
        """Return symbol, price and volume; prices are whole cents, so values repeat."""
        symbol = self._popularity.draw(chunk.rng, chunk.count)
        tick_cents = chunk.rng.integers(-1, 2, chunk.count)
        volume = self._volumes[self._volume_shares.draw(chunk.rng, chunk.count)]
        move = self._move_ppm(symbol, chunk.times_us) / 1e6
        cents = np.rint(self._close_cents[symbol] * (1.0 + move)) + tick_cents
        return {"Symbol": self._symbols.take(symbol), "Price": np.maximum(cents, 1.0) / 100.0, "Vol": volume}

    def _move_ppm(self, symbol: Codes, times_us: Integers) -> Floats:
        """Return how far each trade's price is from the close, on straight lines between the symbol's knots."""
        knot, past_us = np.divmod(times_us - self._start_us, KNOT_US)
        here = self._moves_ppm[symbol, knot % KNOTS]
        there = self._moves_ppm[symbol, (knot + 1) % KNOTS]
        move_ppm: Floats = here + (there - here) * (past_us / KNOT_US)
        return move_ppm


def _symbols(rng: np.random.Generator) -> list[str]:
    """Return tickers of two to four letters; the short ones are spread over all ranks of popularity."""
    short = sample(rng, 26**2 + 26**3, SHORT_SYMBOLS)
    names = [_letters(n, 2) if n < 26**2 else _letters(n - 26**2, 3) for n in short]
    names += [_letters(n, 4) for n in sample(rng, 26**4, SYMBOLS - SHORT_SYMBOLS)]
    return [names[n] for n in sample(rng, SYMBOLS, SYMBOLS)]


def _letters(number: int, length: int) -> str:
    return "".join(chr(65 + number // 26**place % 26) for place in reversed(range(length)))


def _volumes() -> tuple[Integers, Floats]:
    volumes, weights = [np.array(list(COMMON_VOLUMES))], [np.array(list(COMMON_VOLUMES.values()), dtype=np.float64)]
    for family, share in RARE_VOLUMES:
        rare = np.array([volume for volume in family if volume not in COMMON_VOLUMES])
        inverse = 1.0 / rare
        volumes.append(rare)
        weights.append(inverse * (share / np.cumsum(inverse)[-1]))
    return np.concatenate(volumes), np.concatenate(weights)


def _moves_ppm(rng: np.random.Generator) -> Floats:
    """Return per symbol and knot the distance from the close: the day's move so far, and a walk in a circle."""
    scale = 3_000 + 22_000 * np.square(rng.random((SYMBOLS, 1)))
    walk = np.cumsum(bell(rng, SYMBOLS, KNOTS), axis=1)
    closed = walk - walk[:, -1:] * np.arange(1, KNOTS + 1) / KNOTS
    return np.rint(scale * (bell(rng, SYMBOLS, 1) + 0.08 * closed))


KIND = DataKind(
    name="trades",
    summary="stock trades with closing prices and index membership, one hour [OTF 6.1]",
    stream="Trades",
    schema_sql=SCHEMA_SQL,
    default_rows=1_138_636,
    default_span_s=3_600,
    default_start=datetime(2004, 12, 1, 17, 0, tzinfo=UTC),
    default_file_span_s=300,
    prepare=Trades,
)
