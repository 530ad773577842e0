"""Figures 5 to 15 of "Multiple aggregations over data streams" over what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.phantoms import Measured, by_scheme, measured_gains, of_data
from benchmarks.phantoms_choice import BEST, CHOSEN, GC, GS, PEAK_UNITS, WAYS, Choice, Repair
from benchmarks.phantoms_rates import RELATIONS, SYNTHETIC, Models, Rate
from benchmarks.phantoms_space import REPRESENTATIVE, Division
from benchmarks.phantoms_streams import CLUSTERED, UNIFORM
from headrace.datasets.workloads.gigascope import SINGLE


def plot_phantoms(measured: Measured, path: Path) -> None:
    figure = Figure(figsize=(18, 18), layout="constrained")
    places = figure.subplots(4, 4).flat
    collision_rates(next(places), of_data(measured.rates, SYNTHETIC))
    terms(next(places), measured.models)
    curve(next(places), measured.models)
    low_rates(next(places), measured.models)
    for number, tree in enumerate(REPRESENTATIVE):
        those = [each for each in measured.divisions if (each.data, each.tree) == (UNIFORM, tree)]
        divided(next(places), f"figure {9 + number // 2}: {tree}", those)
    entries_per_group(next(places), measured.choices)
    joining(next(places), measured)
    for number, data in ((13, UNIFORM), (14, CLUSTERED)):
        measured_ratios(next(places), f"figure {number}(a): {data}", measured, data)
        gains(next(places), f"figure {number}(b): {data}", measured, data)
    peak(next(places), measured.repairs)
    next(places).set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def collision_rates(axes: Axes, rates: Sequence[Rate]) -> None:
    for relation in RELATIONS:
        line = [each for each in rates if each.relation == relation]
        label = f"{line[0].groups:,} groups"
        axes.plot([each.per_bucket for each in line], [each.measured for each in line], "o", alpha=0.6, label=label)
    axes.plot([each.per_bucket for each in line], [each.precise for each in line], "k-", label="precise model")
    axes.plot([each.per_bucket for each in line], [each.rough for each in line], "k:", label="rough model")
    axes.set_xscale("log")
    named(axes, "figure 5: collision rates", "groups per bucket", "collisions per record")


def terms(axes: Axes, models: Models) -> None:
    axes.bar([k for k, _ in models.terms], [part for _, part in models.terms])
    named(axes, "figure 6: 3,000 groups in 1,000 buckets", "groups in a bucket", "part of the rate")


def curve(axes: Axes, models: Models) -> None:
    ratios = [ratio for ratio, *_ in models.curve]
    axes.plot(ratios, [rate for _, rate, _ in models.curve], "-", label="precise model")
    axes.plot(ratios, [fitted for _, _, fitted in models.curve], "--", label="six parabolas")
    named(axes, "figure 7: the rate by groups per bucket", "groups per bucket", "collisions per record")


def low_rates(axes: Axes, models: Models) -> None:
    ratios = [ratio for ratio, _, _ in models.low]
    axes.plot(ratios, [rate for _, rate, _ in models.low], "-", label="precise model")
    axes.plot(ratios, [line for _, _, line in models.low], "--", label="line")
    named(axes, "figure 8: low rates", "groups per bucket", "collisions per record")


def divided(axes: Axes, title: str, found: Sequence[Division]) -> None:
    for name in found[0].above:
        axes.plot([each.units for each in found], [100 * each.above[name] for each in found], "o-", label=name)
    named(axes, title, "units of memory", "% above the best division")


def entries_per_group(axes: Axes, choices: Sequence[Choice]) -> None:
    those = [each for each in choices if (each.data, each.queries) == (UNIFORM, " ".join(SINGLE))]
    found = min(those, key=lambda each: abs(each.units - PEAK_UNITS))
    axes.plot([float(phi) for phi in found.gs], list(found.gs.values()), "o-", label=GS)
    axes.axhline(found.gc, linestyle="--", label=GC)
    axes.axhline(found.best, color="black", linestyle=":", label=BEST)
    named(axes, f"figure 11: {found.queries}, {found.units:,} units", "entries per group of GS", "cost per record")


def joining(axes: Axes, measured: Measured) -> None:
    for name, costs in measured.steps.items():
        axes.plot(range(len(costs)), costs, "o-", alpha=0.7, label=name)
    named(axes, "figure 12: phantoms one by one", "phantoms", "cost per record")


def measured_ratios(axes: Axes, title: str, measured: Measured, data: str) -> None:
    found = by_scheme(measured, data)
    for scheme in (GC, GS, CHOSEN):
        ratios = [costs[scheme].measured / costs[BEST].measured for costs in found.values()]
        axes.plot(list(found), ratios, "o-", label=scheme)
    axes.set_ylim(bottom=0)
    named(axes, title, "units of memory", "measured cost / of the best by the model")


def gains(axes: Axes, title: str, measured: Measured, data: str) -> None:
    found = list(measured_gains(measured, data))
    axes.plot([units for units, _, _ in found], [gain for _, gain, _ in found], "o-", label="measured")
    axes.plot([units for units, _, _ in found], [limit for _, _, limit in found], "k:", label="limit")
    axes.set_ylim(bottom=0)
    named(axes, title, "units of memory", "cost without phantoms / with GC+SL")


def peak(axes: Axes, repairs: Sequence[Repair]) -> None:
    for data in (CLUSTERED, UNIFORM):
        for way in WAYS:
            line = [each for each in repairs if (each.data, each.way) == (data, way)]
            costs = [each.measured / each.unlimited for each in line]
            axes.plot([each.percent for each in line], costs, "o-", label=f"{way}, {data}")
    named(axes, "figure 15: a limit on the end of an epoch", "% of its cost without a limit", "cost / without a limit")


def named(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize="x-small")
