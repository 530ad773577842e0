"""Records per second by collision rate, and tables 1 and 2 of "Holistic UDAFs at streaming speeds", as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.edge import Dropped
from benchmarks.edge_drops import PAPER_SMALLEST, Losses, Smallest
from benchmarks.edge_speed import Speed
from benchmarks.edge_traffic import KINDS
from headrace.edge.tables.tables import Flush, Replacement

MARKS = {Replacement.DIRECT_MAPPED.value: "o-", Replacement.SECOND_CHANCE.value: "s--"}


def plot_edge(speeds: Sequence[Speed], dropped: Dropped, path: Path) -> None:
    figure = Figure(figsize=(16, 4.5), layout="constrained")
    places = figure.subplots(1, 2 + len(KINDS)).flat
    by_rate(next(places), speeds)
    for kind in KINDS:
        by_groups(next(places), kind, [each for each in dropped.smallest if each.packets == kind])
    by_flush(next(places), dropped.losses)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def by_rate(axes: Axes, speeds: Sequence[Speed]) -> None:
    for kind in KINDS:
        for replacement, mark in MARKS.items():
            line = [each for each in speeds if (each.packets, each.replacement) == (kind, replacement)]
            rates = [100 * each.collision_rate for each in line]
            axes.plot(rates, [each.records_per_s / 1e6 for each in line], mark, label=f"{kind}, {replacement}")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("collision rate of the phantom, %")
    axes.set_ylabel("million records per second")
    axes.set_title("AB, BC, BD, CD below ABCD")
    axes.legend(fontsize="small")


def by_groups(axes: Axes, kind: str, smallest: Sequence[Smallest]) -> None:
    for load in dict.fromkeys(each.load for each in smallest):
        for replacement, mark in MARKS.items():
            key = load, replacement, Flush.LAZY.value
            line = [each for each in smallest if (each.load, each.replacement, each.flush) == key and each.entries]
            places, sizes = [each.groups for each in line], [each.entries or 0 for each in line]
            axes.plot(places, sizes, mark, label=f"load {load:g}, {replacement}")
    for number, replacement in enumerate(MARKS):
        paper = [sizes[number] for sizes in PAPER_SMALLEST.values()]
        axes.plot(list(PAPER_SMALLEST), paper, "k" + MARKS[replacement][1:], alpha=0.4, label=f"paper, {replacement}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("groups")
    axes.set_ylabel("entries")
    axes.set_title(f"table 1: smallest without a drop, {kind}")
    axes.legend(fontsize="small")


def by_flush(axes: Axes, losses: Sequence[Losses]) -> None:
    names = list(losses[0].longest_queue)
    for number, name in enumerate(names):
        places = [place + 0.25 * number for place in range(len(losses))]
        axes.bar(places, [100 * each.longest_queue[name] for each in losses], width=0.25, label=name)
    labels = [f"{each.queries} queries,\n{each.groups:,} groups" for each in losses]
    axes.set_xticks([place + 0.25 for place in range(len(losses))], labels)
    axes.set_ylabel("longest queue, % of the ring")
    axes.set_title("table 2: the end of a slice")
    axes.legend(fontsize="small")
