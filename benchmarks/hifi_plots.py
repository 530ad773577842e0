"""Figures 7 and 8 of HIFI over what was measured: tuples sent, and aggregate operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.hifi import FULL, PANED, PARTIAL, RAW, UNSHARED_PARTIAL, Counts, Measured
from benchmarks.hifi_paper import TUPLES

SENT = (RAW, PANED, FULL, PARTIAL)
COMPUTED = (UNSHARED_PARTIAL, PANED, PARTIAL)


def plot_hifi(measured: Measured, path: Path) -> None:
    figure = Figure(figsize=(12, 9), layout="constrained")
    places = figure.subplots(2, 2)
    for column, is_grouped in enumerate((False, True)):
        kind = "grouped" if is_grouped else "ungrouped"
        sent, computed = places[0, column], places[1, column]
        lines(sent, measured, is_grouped, SENT, lambda counts: counts.tuples)
        crosses(sent, is_grouped, measured.sizes)
        label(sent, f"figure 7: {kind}", "tuples sent")
        lines(computed, measured, is_grouped, COMPUTED, lambda counts: counts.operations)
        label(computed, f"figure 8: {kind}", "aggregate operations")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def lines(
    axes: Axes, measured: Measured, is_grouped: bool, schemes: Sequence[str], of: Callable[[Counts], float]
) -> None:
    for place, scheme in enumerate(schemes):
        values = [of(measured.case(is_grouped, size).counts[scheme]) for size in measured.sizes]
        axes.plot(measured.sizes, values, "o-", color=f"C{place}", label=scheme)


def crosses(axes: Axes, is_grouped: bool, sizes: Sequence[int]) -> None:
    """What the paper's text says, in the colours of the lines."""
    for size, figures in TUPLES[is_grouped].items():
        for scheme, value in figures.items():
            if size in sizes:
                axes.plot([size], [value], "x", color=f"C{SENT.index(scheme)}", markersize=10)


def label(axes: Axes, title: str, what: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("queries")
    axes.set_ylabel(what)
    axes.set_title(f"{title} (x: the paper)" if what == "tuples sent" else title)
    axes.legend(fontsize="small")
