"""Total value of trades, by windows (A), by predicates (B) and by both (C) [OTF 6.1, Table 8 and Query 4].

OTF names the quantities that a predicate compares but not the constants. Ours are drawn log-uniformly from three to
four decades each, low ones for `>` and high ones for `<`, so that over `trades` a row satisfies 76 to 106 of 256
predicates (OTF: 76 in 4.3.3, and 102 to 106 from the counts in 6.3) and a window of 10 minutes has 8,000 to 16,000
fragments (OTF: 11,407).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt, log
from typing import TypeVar

import numpy as np

from headrace.datasets.random_values import generator
from headrace.datasets.trades import KIND
from headrace.datasets.workloads.scripts import QueryText, WindowText, Workload, number_queries, select
from headrace.model.errors import UsageError

INDEXES = ("R3000", "R2000", "R1000")
VALUES = (
    ("T.Vol", {">": (10, 10_000), "<": (150, 1_000_000)}),
    ("T.Vol * T.Price", {">": (50, 100_000), "<": (1_000, 10_000_000)}),
    ("abs(T.Price - C.CP) / C.CP", {">": (0.00003, 0.03), "<": (0.001, 1)}),
)
SAME_WINDOW = WindowText(600, 600)
WINDOWS_STREAM, PREDICATES_STREAM = 0, 1

Drawn = TypeVar("Drawn")


def windows(count: int, seed: int) -> list[WindowText]:
    """Return different windows of the ranges in Table 8."""
    return _different(count, generator(seed, WINDOWS_STREAM), _window)


def predicates(count: int, seed: int) -> list[str]:
    """Return different conjunctions of a Member and a Value condition [OTF 6.1]."""
    return _different(count, generator(seed, PREDICATES_STREAM), _predicate)


def _different(count: int, rng: np.random.Generator, draw: Callable[[np.random.Generator], Drawn]) -> list[Drawn]:
    drawn: dict[Drawn, None] = {}
    while len(drawn) < count:
        drawn[draw(rng)] = None
    return list(drawn)


def _window(rng: np.random.Generator) -> WindowText:
    return WindowText(int(rng.integers(600, 901)), int(rng.integers(300, 601)))


def _predicate(rng: np.random.Generator) -> str:
    index = INDEXES[rng.integers(len(INDEXES))]
    member = ("TRUE", "FALSE")[rng.integers(2)]
    value, ranges = VALUES[rng.integers(len(VALUES))]
    comparison = (">", "<")[rng.integers(2)]
    return f"X.{index} = {member} AND {value} {comparison} {_constant(rng, *ranges[comparison])}"


def _constant(rng: np.random.Generator, low: float, high: float) -> str:
    """Draw log-uniformly; three significant digits, because the last bits of an exponential differ between machines."""
    value = float(f"{np.exp(rng.uniform(log(low), log(high))):.3g}")
    return f"{value:.0f}" if low >= 1 else f"{value:.7f}".rstrip("0").rstrip(".")


def _select(window: WindowText, predicate: str = "") -> str:
    restriction = f"\n  AND {predicate}" if predicate else ""
    return select(
        ["sum(T.Price * T.Vol) AS value"],
        f"Trades T {window}, Close C, Index X",
        f"T.Symbol = C.Symbol AND T.Symbol = X.Symbol{restriction}",
    )


def _varying_windows(queries: int, seed: int) -> Sequence[QueryText]:
    return number_queries("otf-windows", [_select(window) for window in windows(queries, seed)])


def _varying_predicates(queries: int, seed: int) -> Sequence[QueryText]:
    return number_queries(
        "otf-predicates", [_select(SAME_WINDOW, predicate) for predicate in predicates(queries, seed)]
    )


def _regular(queries: int, seed: int) -> Sequence[QueryText]:
    side = isqrt(queries)
    if side * side != queries:
        message = f"workload otf-regular pairs as many windows as predicates, so {queries} queries are not possible"
        raise UsageError("workload", message, hint=f"take a square number such as {side * side} or {(side + 1) ** 2}")
    pairs = [(window, predicate) for window in windows(side, seed) for predicate in predicates(side, seed)]
    return number_queries("otf-regular", [_select(window, predicate) for window, predicate in pairs])


def _low(queries: int, seed: int) -> Sequence[QueryText]:
    pairs = zip(windows(queries, seed), predicates(queries, seed), strict=True)
    return number_queries("otf-low", [_select(window, predicate) for window, predicate in pairs])


WORKLOADS = (
    Workload("otf-windows", "no predicates, different windows [OTF 6.2]", KIND, 256, _varying_windows),
    Workload(
        "otf-predicates", "different predicates, one window of 10 minutes [OTF 6.3]", KIND, 256, _varying_predicates
    ),
    Workload("otf-regular", "every pair of sqrt(n) windows and sqrt(n) predicates [OTF 6.4.1]", KIND, 256, _regular),
    Workload("otf-low", "no window and no predicate in two queries [OTF 6.4.2]", KIND, 256, _low),
)
