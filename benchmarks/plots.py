"""Pictures of benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.nfc import Hashed

PAPER_FACTORS = (2.0, 3.0)


def plot_factors(found: Sequence[Hashed], path: Path) -> None:
    """The two halves of NFC figure 1: by period, and by number of queries."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    by_period = [each for each in found if each.workload == "nfc-flowcollector"]
    by_queries = [each for each in found if each.workload == "nfc-random"]
    draw(left, [each.period_s / 60 for each in by_period], by_period, "aggregation period in minutes")
    draw(right, [float(each.queries) for each in by_queries], by_queries, "random queries, 5 minutes")
    left.set_ylabel("rows hashed: each query apart / shared tree")
    left.set_title("FlowCollector's queries")
    right.set_title("Random queries")
    left.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def draw(axes: Axes, places: Sequence[float], found: Sequence[Hashed], label: str) -> None:
    axes.axhspan(*PAPER_FACTORS, alpha=0.15, label="the paper's factor")
    axes.plot(places, [each.factor for each in found], "o-", label="executed")
    axes.plot(places, [each.predicted_factor for each in found], "s--", label="predicted")
    if best := [each.best_factor for each in found if each.best_factor is not None]:
        axes.plot(places, best, "k:", label="best possible")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(label)
    axes.set_xticks(places, [f"{place:g}" for place in places])
    axes.minorticks_off()
