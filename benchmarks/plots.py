"""The figures of all benchmarks, drawn from the documents that they write as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.tables import Document, Row, Value, value_of
from headrace.model.errors import UsageError


def draw(document: Document, path: Path) -> None:
    """Draw the figure of the benchmark that wrote the document."""
    figure_of = next((figure for section, figure in FIGURES.items() if section in document), None)
    if figure_of is None:
        raise UsageError("no-figure", f"nothing to draw: no benchmark with a figure wrote {', '.join(document)}")
    figure = figure_of(document)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


# Rows and lines


def select(rows: Iterable[Row], **values: object) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    return list(dict.fromkeys(row[name] for row in rows))


def column(rows: Iterable[Row], value: Value) -> list[Any]:
    return [value_of(row, value) for row in rows]


def line(axes: Axes, rows: Sequence[Row], x: Value, y: Value, mark: str = "o-", **style: Any) -> None:
    axes.plot(column(rows, x), column(rows, y), mark, **style)


def label(axes: Axes, title: str, x: str, y: str, *, log: str = "", from_zero: bool = False) -> None:
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    if from_zero:
        axes.set_ylim(bottom=0)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize="x-small")


def panels(
    rows: int, columns: int, width: float, height: float, *, sharey: bool = False
) -> tuple[Figure, Iterator[Axes]]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, iter(figure.subplots(rows, columns, sharey=sharey).flat)


# NFC figure 1

PAPER_FACTORS = (2.0, 3.0)


def nfc(document: Document) -> Figure:
    """By period, and by number of queries."""
    figure, (left, right) = panels(1, 2, 10, 4, sharey=True)
    for axes, workload, place, title, x in (
        (left, "nfc-flowcollector", lambda row: row["period_s"] / 60, "FlowCollector's queries", "period in minutes"),
        (right, "nfc-random", "queries", "Random queries", "random queries, 5 minutes"),
    ):
        rows = select(document["runs"], workload=workload)
        axes.axhspan(*PAPER_FACTORS, alpha=0.15, label="the paper's factor")
        line(axes, rows, place, "factor", label="executed")
        line(axes, rows, place, "predicted_factor", "s--", label="predicted")
        if bounded := [row for row in rows if row["best_factor"] is not None]:
            line(axes, bounded, place, "best_factor", "k:", label="best possible")
        label(axes, title, x, "rows hashed: each query apart / shared tree", log="x", from_zero=True)
        axes.set_xticks(column(rows, place), [f"{tick:g}" for tick in column(rows, place)])
        axes.minorticks_off()
    return figure


# HIFI figures 7 and 8

SENT = ("shared none", "shared partial, paned", "shared full", "shared partial")
COMPUTED = ("unshared partial", "shared partial, paned", "shared partial")


def hifi(document: Document) -> Figure:
    figure, places = panels(2, 2, 12, 9)
    axes = list(places)
    for number, (kind, is_grouped) in enumerate((("ungrouped", False), ("grouped", True))):
        cases = select(document["cases"], is_grouped=is_grouped)
        sent, computed = axes[number], axes[2 + number]
        plans(sent, cases, SENT, "tuples")
        for case in cases:
            for scheme, value in case["paper_tuples"].items():
                sent.plot([case["queries"]], [value], "x", color=f"C{SENT.index(scheme)}", markersize=10)
        label(sent, f"figure 7: {kind} (x: the paper)", "queries", "tuples sent", log="xy")
        plans(computed, cases, COMPUTED, "operations")
        label(computed, f"figure 8: {kind}", "queries", "aggregate operations", log="xy")
        for panel in (sent, computed):
            panel.set_xscale("log", base=2)
    return figure


def plans(axes: Axes, cases: Sequence[Row], schemes: Sequence[str], name: str) -> None:
    for place, scheme in enumerate(schemes):
        values = [case["plans"][scheme][name] for case in cases]
        axes.plot(column(cases, "queries"), values, "o-", color=f"C{place}", label=scheme)


# Tables 1 and 2 of UDAF, and records per second by collision rate

MARKS = ("o-", "s--")


def edge(document: Document) -> Figure:
    # The paper's sizes are beside those that the simulation tries
    from benchmarks.edge.drops import PAPER_SMALLEST

    figure, places = panels(1, 4, 16, 4.5)
    by_rate, *by_groups, by_flush = places
    kinds, replacements = distinct(document["speeds"], "packets"), distinct(document["speeds"], "replacement")
    for kind in kinds:
        for replacement, mark in zip(replacements, MARKS, strict=True):
            rows = select(document["speeds"], packets=kind, replacement=replacement)
            rates = [100 * row["collision_rate"] for row in rows]
            speeds = [row["records_per_s"] / 1e6 for row in rows]
            by_rate.plot(rates, speeds, mark, label=f"{kind}, {replacement}")
    label(
        by_rate,
        "AB, BC, BD, CD below ABCD",
        "collision rate of the phantom, %",
        "million records per second",
        log="x",
        from_zero=True,
    )
    for axes, kind in zip(by_groups, kinds, strict=True):
        smallest = [row for row in select(document["smallest"], packets=kind, flush="lazy") if row["entries"]]
        for load in distinct(smallest, "load"):
            for replacement, mark in zip(replacements, MARKS, strict=True):
                rows = select(smallest, load=load, replacement=replacement)
                line(axes, rows, "groups", "entries", mark, label=f"load {load:g}, {replacement}")
        for number, (replacement, mark) in enumerate(zip(replacements, MARKS, strict=True)):
            paper = [sizes[number] for sizes in PAPER_SMALLEST.values()]
            axes.plot(list(PAPER_SMALLEST), paper, "k" + mark[1:], alpha=0.4, label=f"paper, {replacement}")
        label(axes, f"table 1: smallest without a drop, {kind}", "groups", "entries", log="xy")
    draw_losses(by_flush, document["losses"])
    return figure


def draw_losses(axes: Axes, losses: Sequence[Row]) -> None:
    for number, name in enumerate(losses[0]["longest_queue"]):
        places = [place + 0.25 * number for place in range(len(losses))]
        axes.bar(places, [100 * row["longest_queue"][name] for row in losses], width=0.25, label=name)
    ticks = [f"{row['queries']} queries,\n{row['groups']:,} groups" for row in losses]
    axes.set_xticks([place + 0.25 for place in range(len(losses))], ticks)
    label(axes, "table 2: the end of a slice", "", "longest queue, % of the ring")


# UDAF figures 4 to 11

LIVE_GROUPS = 1_000
SHARES = ("correct", "off_by_one", "off_by_more", "missed")
THRESHOLDS = ("adaptive 64", "adaptive 128", "adaptive 256")


def holistic(document: Document) -> Figure:
    figure, places = panels(3, 3, 16, 14)
    groups, quantiles, hitters = document["groups"], document["quantiles"], document["hitters"]
    few, many, live = min(groups), max(groups), min(groups, key=lambda count: abs(count - LIVE_GROUPS))
    shown = [row for row in hitters if row["high"] in ("direct", "adaptive 64", "low sketch", "counters")]
    for title, rows, traffic, count in (
        ("figure 4(a): quantiles", quantiles, "uniform", few),
        ("figure 4(b): quantiles", quantiles, "uniform", many),
        ("table 3: quantiles", quantiles, "skewed", live),
        ("figure 5: heavy hitters", shown, "uniform", many),
        ("figures 6, 7: heavy hitters", shown, "skewed", many),
    ):
        draw_levels(next(places), title, select(rows, traffic=traffic, groups=count))
    uniform = select(hitters, traffic="uniform")
    strategies = [row for row in uniform if row["high"] in ("adaptive 64", "low sketch")]
    draw_totals(next(places), "figure 8: strategies, uniform", strategies)
    compressed = [row for row in select(uniform, low="compress") if row["high"] in THRESHOLDS]
    draw_totals(next(places), "figure 9: thresholds, uniform", compressed)
    accuracy = select(document["accuracy"], traffic="uniform")
    draw_space(next(places), accuracy)
    draw_accuracy(next(places), accuracy)
    return figure


def levels_of(row: Row) -> str:
    # Imports numba
    from benchmarks.holistic.traffic import name_of

    return name_of(row["low"], row["high"])


def draw_levels(axes: Axes, title: str, costs: Sequence[Row]) -> None:
    """Low and high level on top of each other, and the null UDAF as a line."""
    names, low = column(costs, levels_of), column(costs, "low_ns")
    axes.barh(names, low, label="low level")
    axes.barh(names, column(costs, "high_ns"), left=low, label="high level")
    axes.axvline(costs[0]["null_ns"], color="black", linestyle=":", label="null")
    axes.invert_yaxis()
    label(axes, f"{title}, {costs[0]['traffic']}, {costs[0]['groups']:,} groups", "ns per packet", "")


def draw_totals(axes: Axes, title: str, costs: Sequence[Row]) -> None:
    for name in dict.fromkeys(map(levels_of, costs)):
        line(axes, [row for row in costs if levels_of(row) == name], "groups", "total_ns", label=name)
    label(axes, title, "groups", "ns per packet", log="x", from_zero=True)


def draw_space(axes: Axes, accuracy: Sequence[Row]) -> None:
    for high in THRESHOLDS:
        for count in sorted(distinct(accuracy, "distinct")):
            rows = select(accuracy, high=high, distinct=count)
            line(axes, rows, "groups", "bytes_per_packet", alpha=0.6, label=f"{high}, {count} values")
    label(axes, "figure 10: space of adaptive, uniform", "groups", "bytes per packet", log="xy")


def draw_accuracy(axes: Axes, accuracy: Sequence[Row]) -> None:
    names = distinct(accuracy, "high")
    begins = [0.0] * len(names)
    for share in SHARES:
        sizes = [100 * fmean(column(select(accuracy, high=name), share)) for name in names]
        axes.barh(names, sizes, left=begins, label=share.replace("_", " "))
        begins = [begin + size for begin, size in zip(begins, sizes, strict=True)]
    axes.invert_yaxis()
    label(axes, "figure 11: accuracy, uniform", "% of the top five, all groups and values", "")


# GS figures 5 to 15

PEAK_UNITS = 40_000
PER_BUCKET, PER_RECORD, MEMORY = "groups per bucket", "collisions per record", "units of memory"


def phantoms(document: Document) -> Figure:
    # The paper does not name its four trees
    from benchmarks.phantoms.space import REPRESENTATIVE

    figure, places = panels(4, 4, 18, 18)
    draw_rates(next(places), select(document["rates"], data="synthetic"))
    draw_models(places, document["models"])
    for number, tree in enumerate(REPRESENTATIVE):
        axes, rows = next(places), select(document["divisions"], data="uniform", tree=tree)
        for name in rows[0]["above"]:
            line(axes, rows, "units", ("above", name), label=name)
        label(axes, f"figure {9 + number // 2}: {tree}", MEMORY, "part above the best division")
    draw_entries(next(places), select(document["choices"], data="uniform", queries="A B C D"))
    joining = next(places)
    for name, costs in document["steps"].items():
        joining.plot(range(len(costs)), costs, "o-", alpha=0.7, label=name)
    label(joining, "figure 12: phantoms one by one", "phantoms", "cost per record")
    for number, data in ((13, "uniform"), (14, "clustered")):
        draw_costs(next(places), next(places), number, data, select(document["costs"], data=data))
    draw_limits(next(places), document["repairs"])
    next(places).set_axis_off()
    return figure


def draw_rates(axes: Axes, rates: Sequence[Row]) -> None:
    for relation in distinct(rates, "relation"):
        rows = select(rates, relation=relation)
        line(axes, rows, "per_bucket", "measured", "o", alpha=0.6, label=f"{rows[0]['groups']:,} groups")
    line(axes, rows, "per_bucket", "precise", "k-", label="precise model")
    line(axes, rows, "per_bucket", "rough", "k:", label="rough model")
    label(axes, "figure 5: collision rates", PER_BUCKET, PER_RECORD, log="x")


def draw_models(places: Iterator[Axes], models: Row) -> None:
    axes = next(places)
    axes.bar(*zip(*models["terms"], strict=True))
    label(axes, "figure 6: 3,000 groups in 1,000 buckets", "groups in a bucket", "part of the rate")
    for title, section, fitted in (
        ("figure 7: the rate by groups per bucket", "curve", "six parabolas"),
        ("figure 8: low rates", "low", "line"),
    ):
        axes = next(places)
        ratios, rates, found = zip(*models[section], strict=True)
        axes.plot(ratios, rates, "-", label="precise model")
        axes.plot(ratios, found, "--", label=fitted)
        label(axes, title, PER_BUCKET, PER_RECORD)


def draw_entries(axes: Axes, choices: Sequence[Row]) -> None:
    choice = min(choices, key=lambda row: abs(row["units"] - PEAK_UNITS))
    axes.plot([float(phi) for phi in choice["gs"]], list(choice["gs"].values()), "o-", label="GS")
    axes.axhline(choice["gc"], linestyle="--", label="GC+SL")
    axes.axhline(choice["best"], color="black", linestyle=":", label="best")
    title = f"figure 11: {choice['queries']}, {choice['units']:,} units"
    label(axes, title, "entries per group of GS", "cost per record")


def draw_costs(ratios: Axes, gains: Axes, number: int, data: str, costs: Sequence[Row]) -> None:
    """Measured costs over those of the best by the model, and what phantoms save."""
    units = distinct(costs, "units")
    measured = {scheme: column(select(costs, scheme=scheme), "measured") for scheme in distinct(costs, "scheme")}
    for scheme in ("GC+SL", "GS", "choose"):
        ratios.plot(units, divide(measured[scheme], measured["best"]), "o-", label=scheme)
    title = "measured cost / of the best by the model"
    label(ratios, f"figure {number}(a): {data}", MEMORY, title, from_zero=True)
    gains.plot(units, divide(measured["no phantoms"], measured["GC+SL"]), "o-", label="measured")
    gains.plot(units, measured["no phantoms"], "k:", label="limit")
    label(gains, f"figure {number}(b): {data}", MEMORY, "cost without phantoms / with GC+SL", from_zero=True)


def divide(numbers: Sequence[float], others: Sequence[float]) -> list[float]:
    return [number / other for number, other in zip(numbers, others, strict=True)]


def draw_limits(axes: Axes, repairs: Sequence[Row]) -> None:
    for data in distinct(repairs, "data"):
        for way in ("shrink", "shift"):
            rows = select(repairs, data=data, way=way)
            line(axes, rows, "percent", lambda row: row["measured"] / row["unlimited"], label=f"{way}, {data}")
    title = "figure 15: a limit on the end of an epoch"
    label(axes, title, "% of its cost without a limit", "cost / without a limit")


FIGURES: Mapping[str, Callable[[Document], Figure]] = {
    "runs": nfc,
    "cases": hifi,
    "speeds": edge,
    "quantiles": holistic,
    "repairs": phantoms,
}
"""By a section that only this benchmark writes."""
