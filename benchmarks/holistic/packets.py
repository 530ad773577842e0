"""The experiments of "Holistic UDAFs at streaming speeds" over generated packets, beside what the paper found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from benchmarks.holistic.hitters import COUNTING, LOW_SKETCH, Accuracy, accuracies, hitter_costs
from benchmarks.holistic.quantiles import MERGES, ROOMS, TINY, VARIANTS, Merged, merged_errors, quantile_costs
from benchmarks.holistic.traffic import GK, KINDS, SKEWED, UNIFORM, Cost, draw, name_of
from benchmarks.sketches.gk import HEAVY
from benchmarks.tables import Across, Column, Document, Finding, Row, show_findings, show_table
from headrace.cli.progress import Report, progress_bar

LIVE_GROUPS = 1_000
"""The paper's live traffic has 640 to 1,260 groups a minute."""


@dataclass(frozen=True, slots=True)
class Measured:
    rows: int
    groups: Sequence[int]
    quantiles: Sequence[Cost]
    hitters: Sequence[Cost]
    accuracy: Sequence[Accuracy]
    merged: Sequence[Merged]


def measure(rows: int, groups: Sequence[int]) -> Document:
    with progress_bar("packets") as report:
        measured = measure_packets(rows, groups, report)
    return {
        "rows": rows,
        "groups": groups,
        "quantiles": list(map(cost_document, measured.quantiles)),
        "hitters": list(map(cost_document, measured.hitters)),
        "accuracy": list(map(asdict, measured.accuracy)),
        "merged": list(map(asdict, measured.merged)),
        "findings": list(map(asdict, findings(measured))),
    }


def cost_document(cost: Cost) -> dict[str, Any]:
    return asdict(cost) | {name: getattr(cost, name) for name in ("total_ns", "low_ratio", "total_ratio")}


def show(document: Document) -> None:
    show_costs("quantiles", document["quantiles"])
    show_costs("heavy hitters", document["hitters"])
    show_table("heavy hitters: the exact top five, by their place among those found", document["accuracy"], ACCURACY)
    show_table("quantiles after merges: the largest errors at 1% to 99%", document["merged"], MERGED)
    show_findings(document["findings"])


def show_costs(title: str, costs: Sequence[Row]) -> None:
    """Print a row for each pair of levels, with the numbers of groups beside each other."""
    for traffic in dict.fromkeys(cost["traffic"] for cost in costs):
        rows = [cost for cost in costs if cost["traffic"] == traffic]
        nulls = {cost["groups"]: cost["null_ns"] for cost in rows}
        show_table(
            f"{title}, {traffic} packets: ns at the low and the high level, in all as a multiple of null "
            f"({', '.join(f'{null_ns:.1f}' for null_ns in nulls.values())} ns), bytes per group at the end",
            rows,
            (Column("", lambda row: name_of(row["low"], row["high"])),),
            COSTS,
        )


COSTS = Across(
    lambda row: f"{row['groups']:,} groups",
    (
        Column("low", "low_ns", ".1f"),
        Column("high", "high_ns", ".1f"),
        Column("x null", "total_ratio", ".1f"),
        Column("bytes", "held_bytes", ",.0f"),
    ),
)
ACCURACY = (
    Column("packets", "traffic"),
    Column("groups", "groups", ","),
    Column("values", "distinct", ","),
    Column("high level", "high"),
    Column("correct", "correct", ".1%"),
    Column("by one", "off_by_one", ".1%"),
    Column("by more", "off_by_more", ".1%"),
    Column("missed", "missed", ".1%"),
    Column("bytes/group", "bytes_per_group", ",.0f"),
    Column("bytes/packet", "bytes_per_packet", ".2f"),
)
MERGED = (
    Column("values", "values"),
    Column("sketch", "sketch"),
    Column("merges", "merges", ","),
    Column("bytes", "bytes", ","),
    Column("rows", "rows", ","),
    Column("proven", "proven_error", ".2%"),
    Column("rank", "rank_error", ".2%"),
    Column("value", "value_error", ".1%"),
)


def measure_packets(rows: int, groups: Sequence[int], report: Report, merges: int = MERGES) -> Measured:
    """Measure all levels over all packets [UDAF table 3, figures 4 to 11]."""
    quantiles: list[Cost] = []
    hitters: list[Cost] = []
    accuracy: list[Accuracy] = []
    cases = [(kind, count) for kind in KINDS for count in groups]
    for place, (kind, count) in enumerate(cases):
        report(place, len(cases) + 1)
        traffic = draw(kind, rows, count)
        quantiles += quantile_costs(traffic)
        hitters += hitter_costs(traffic)
        accuracy += accuracies(kind, rows, count)
    report(len(cases), len(cases) + 1)
    return Measured(rows, groups, quantiles, hitters, accuracy, list(merged_errors(merges)))


# Beside the paper


def findings(measured: Measured) -> Sequence[Finding]:
    return (
        levels_trade(measured),
        heavy_wins(measured),
        extremes_lose(measured),
        compress_adaptive_wins(measured),
        thresholds_save_space(measured),
        thresholds_cost_time(measured),
        adaptive_misses_less(measured),
    )


def of_case(costs: Iterable[Cost], traffic: str, groups: int) -> list[Cost]:
    return [each for each in costs if (each.traffic, each.groups) == (traffic, groups)]


def cost_text(cost: Cost) -> str:
    return f"{cost.name} {cost.total_ns:.0f}"


def cheapest(costs: Iterable[Cost]) -> Cost:
    return min(costs, key=lambda each: each.total_ns)


def by_variant(measured: Measured, traffic: str, groups: int) -> list[Cost]:
    """Return each low level for Greenwald-Khanna with the scratchpad that suits it best."""
    costs = of_case(measured.quantiles, traffic, groups)
    return [cheapest(each for each in costs if each.low.startswith(f"{variant} ")) for variant in VARIANTS]


def nearest(groups: Sequence[int], wanted: int) -> int:
    return min(groups, key=lambda count: abs(count - wanted))


def levels_trade(measured: Measured) -> Finding:
    few = min(measured.groups)
    large = [
        each for each in of_case(measured.quantiles, UNIFORM, few) if each.low in {f"{name} large" for name in VARIANTS}
    ]
    rising = [each.low_ns for each in large] == sorted(each.low_ns for each in large)
    falling = large[0].high_ns > max(each.high_ns for each in large[1:])
    return Finding(
        "quantiles: lite is fastest at the low level and slowest at the high one [UDAF 7.1, figure 4]",
        rising and falling,
        f"uniform, {few:,} groups, large scratchpad, ns low / high: "
        + ", ".join(f"{each.low} {each.low_ns:.0f} / {each.high_ns:.1f}" for each in large),
        "with few packets in a group no low level has anything to reduce.",
    )


def heavy_wins(measured: Measured) -> Finding:
    groups = nearest(measured.groups, LIVE_GROUPS)
    variants = by_variant(measured, SKEWED, groups)
    costs = of_case(measured.quantiles, SKEWED, groups)
    batched = [each for each in costs if each.high != GK]
    tiny, lite = (next(each for each in costs if each.low == f"lite {room}") for room in (TINY, "large"))
    return Finding(
        "quantiles on skewed packets: heavy costs least in all, 11.9 us against 15.6 of lite [UDAF table 3]",
        cheapest(variants).low.startswith(HEAVY),
        f"{groups:,} groups, ns in all: " + ", ".join(map(cost_text, [*variants, *batched])),
        "the paper's high level inserts lite's values one by one (13.9 us). Ours sorts a flush and merges it in one "
        f"pass: with 3 values to a flush that costs {tiny.high_ns / lite.high_ns:.1f} times as much as with "
        f"{3 * ROOMS['large']}, which leaves little for a low level to save. {HEAVY} ships as little as in the paper, "
        "and its high level is cheap, but it sweeps its whole summary for every packet.",
    )


def extremes_lose(measured: Measured) -> Finding:
    ratios, holds = [], True
    for traffic in KINDS:
        for groups in measured.groups:
            costs = of_case(measured.hitters, traffic, groups)
            whole = cheapest(each for each in costs if each.low == LOW_SKETCH)
            pairs = cheapest(each for each in costs if each.low not in (LOW_SKETCH, *COUNTING))
            ratios.append(f"{traffic} {groups:,} {whole.total_ns / pairs.total_ns:.2f}")
            holds &= whole.total_ns > pairs.total_ns
    return Finding(
        "heavy hitters: all at the low level, or all at the high one, loses [UDAF 7.2, figures 5 and 8]",
        holds,
        "low sketch / cheapest pair: " + ", ".join(ratios),
        "as long as all sketches fit into the cache, seven additions per packet are as cheap as a table. In one "
        "process nothing lies between the levels: all at the high level would be the same loop, and the same time.",
    )


def compress_adaptive_wins(measured: Measured) -> Finding:
    holds, here = True, []
    for groups in measured.groups:
        costs = [each for each in of_case(measured.hitters, SKEWED, groups) if each.low not in COUNTING]
        best, named = cheapest(costs), cheapest(each for each in costs if is_compress_adaptive(each))
        holds &= best is named
        here.append(f"{groups:,} groups {cost_text(best)}" + ("" if best is named else f" ({cost_text(named)})"))
    return Finding(
        "heavy hitters on skewed packets: compress + adaptive costs least [UDAF 7.2, figures 6 and 7]",
        holds,
        "cheapest, ns in all: " + ", ".join(here),
        "with few groups each has more keys than a list may hold, so that it becomes a sketch, which direct has from "
        "the start, and flushes are full, with nothing to compress. With few packets in a group, buffer has no table "
        "to clear. In between compress + adaptive wins, as in the paper.",
    )


def is_compress_adaptive(cost: Cost) -> bool:
    return cost.low == "compress" and cost.high.startswith("adaptive")


def thresholds_save_space(measured: Measured) -> Finding:
    found = by_threshold(measured, SKEWED)
    sizes = [each.held_bytes for each in found]
    return Finding(
        "a higher threshold of adaptive saves space [UDAF 7.2, figure 10]",
        sizes == sorted(sizes, reverse=True),
        f"skewed, {found[0].groups:,} groups, bytes a group: "
        + ", ".join(f"{each.high} {each.held_bytes:,.0f}" for each in found),
        "a group that grows beyond all thresholds has a sketch in the end.",
    )


def thresholds_cost_time(measured: Measured) -> Finding:
    found = by_threshold(measured, UNIFORM)
    return Finding(
        "with many groups a threshold of 256 costs more time than one of 64 [UDAF 7.2, figure 9]",
        found[-1].total_ns > found[0].total_ns,
        f"uniform, {found[0].groups:,} groups, ns in all and bytes a group: "
        + ", ".join(f"{each.high} {each.total_ns:.0f}, {each.held_bytes:,.0f}" for each in found),
        "a longer list is cheap, but a group that goes beyond its threshold is not. Ours keeps all sketches in one "
        "array that doubles, and copying it takes most of that time; a threshold that is not reached saves it.",
    )


def by_threshold(measured: Measured, traffic: str) -> list[Cost]:
    return [each for each in of_case(measured.hitters, traffic, max(measured.groups)) if is_compress_adaptive(each)]


def adaptive_misses_less(measured: Measured) -> Finding:
    missed = {
        high: fmean(each.missed for each in measured.accuracy if (each.traffic, each.high) == (UNIFORM, high))
        for high in dict.fromkeys(each.high for each in measured.accuracy)
    }
    return Finding(
        "adaptive misses less of the top five than direct, 14% against 18% on uniform packets [UDAF figure 11]",
        missed["adaptive 64"] < missed["direct"],
        "uniform, missed: " + ", ".join(f"{name} {share:.0%}" for name, share in missed.items()),
        "no group has so few keys that its list is exact.",
    )
