"""Figures 4 to 11 of "Holistic UDAFs at streaming speeds" over what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.holistic import LIVE_GROUPS, Measured, nearest, of_case
from benchmarks.holistic_hitters import THRESHOLDS, Accuracy
from benchmarks.holistic_traffic import SKEWED, UNIFORM, Cost

SHARES = ("correct", "off_by_one", "off_by_more", "missed")


def plot_holistic(measured: Measured, path: Path) -> None:
    few, many = min(measured.groups), max(measured.groups)
    live = nearest(measured.groups, LIVE_GROUPS)
    figure = Figure(figsize=(16, 14), layout="constrained")
    places = figure.subplots(3, 3).flat
    bars(next(places), "figure 4(a): quantiles", of_case(measured.quantiles, UNIFORM, few))
    bars(next(places), "figure 4(b): quantiles", of_case(measured.quantiles, UNIFORM, many))
    bars(next(places), "table 3: quantiles", of_case(measured.quantiles, SKEWED, live))
    bars(next(places), "figure 5: heavy hitters", default(of_case(measured.hitters, UNIFORM, many)))
    bars(next(places), "figures 6, 7: heavy hitters", default(of_case(measured.hitters, SKEWED, many)))
    adaptive = [each for each in measured.hitters if each.traffic == UNIFORM]
    by_groups(next(places), "figure 8: strategies, uniform", default(adaptive, "adaptive 64", "low sketch"))
    thresholds = tuple(f"adaptive {threshold}" for threshold in THRESHOLDS)
    compressed = [each for each in adaptive if each.low == "compress"]
    by_groups(next(places), "figure 9: thresholds, uniform", default(compressed, *thresholds))
    space(next(places), measured.accuracy, thresholds)
    accuracy(next(places), [each for each in measured.accuracy if each.traffic == UNIFORM])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def default(costs: Sequence[Cost], *high: str) -> list[Cost]:
    """Only those with these high levels, or without those of the higher thresholds."""
    wanted = high or ("direct", "adaptive 64", "low sketch", "counters")
    return [each for each in costs if each.high in wanted]


def bars(axes: Axes, title: str, costs: Sequence[Cost]) -> None:
    """Low and high level on top of each other, and the null UDAF as a line."""
    names = [each.name for each in costs]
    low = [each.low_ns for each in costs]
    axes.barh(names, low, label="low level")
    axes.barh(names, [each.high_ns for each in costs], left=low, label="high level")
    axes.axvline(costs[0].null_ns, color="black", linestyle=":", label="null")
    axes.invert_yaxis()
    axes.set_xlabel("ns per packet")
    axes.set_title(f"{title}, {costs[0].traffic}, {costs[0].groups:,} groups")
    axes.legend(fontsize="small")


def by_groups(axes: Axes, title: str, costs: Sequence[Cost]) -> None:
    for name in dict.fromkeys(each.name for each in costs):
        line = [each for each in costs if each.name == name]
        axes.plot([each.groups for each in line], [each.total_ns for each in line], "o-", label=name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("groups")
    axes.set_ylabel("ns per packet")
    axes.set_title(title)
    axes.legend(fontsize="small")


def space(axes: Axes, found: Sequence[Accuracy], thresholds: Sequence[str]) -> None:
    for high in thresholds:
        for distinct in sorted({each.distinct for each in found}):
            line = [each for each in found if (each.traffic, each.high, each.distinct) == (UNIFORM, high, distinct)]
            places = [each.groups for each in line]
            axes.plot(
                places, [each.bytes_per_packet for each in line], "o-", alpha=0.6, label=f"{high}, {distinct} values"
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("groups")
    axes.set_ylabel("bytes per packet")
    axes.set_title("figure 10: space of adaptive, uniform")
    axes.legend(fontsize="small")


def accuracy(axes: Axes, found: Sequence[Accuracy]) -> None:
    names = list(dict.fromkeys(each.high for each in found))
    begins = [0.0] * len(names)
    for share in SHARES:
        sizes = []
        for name in names:
            those = [getattr(each, share) for each in found if each.high == name]
            sizes.append(100 * sum(those) / len(those))
        axes.barh(names, sizes, left=begins, label=share.replace("_", " "))
        begins = [begin + size for begin, size in zip(begins, sizes, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("% of the top five, all groups and values")
    axes.set_title("figure 11: accuracy, uniform")
    axes.legend(fontsize="small")
