"""The experiments of "Multiple aggregations over data streams" over generated packets, beside what the paper found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from benchmarks.phantoms.choice import (
    ALONE,
    BEST,
    GC,
    GS,
    PEAK_UNITS,
    QUERY_SETS,
    Choice,
    Cost,
    Instance,
    Repair,
    choices,
    measure_schemes,
    one_by_one,
    repairs,
)
from benchmarks.phantoms.rates import CLUSTERED, SYNTHETIC, UNIFORM, Models, Rate, measure_rates, models, packets
from benchmarks.phantoms.space import Division, Summary, divisions, summaries
from benchmarks.phantoms.tables import show_tables
from benchmarks.tables import Document, show_figures, show_findings
from headrace.cli.progress import progress_bar
from headrace.datasets.workloads.gigascope import PAIRS, SINGLE

MEASURED = ((UNIFORM, SINGLE), (CLUSTERED, PAIRS))
AMPLE_UNITS = 100_000
"""For figure 15 a second time: with less memory no shift keeps a limit."""
SECTIONS = ("models", "steps")
"""Shown as tables though they are no lists."""
NEAR = 0.05
CLOSE = 1.2


@dataclass(frozen=True, slots=True)
class Measured:
    rates: Sequence[Rate]
    models: Models
    divisions: Sequence[Division]
    summaries: Sequence[Summary]
    choices: Sequence[Choice]
    steps: Mapping[str, Sequence[float]]
    costs: Sequence[Cost]
    repairs: Sequence[Repair]


def measure(rows: int, units: Sequence[int], hashes: int) -> Document:
    # findings build on this module
    from benchmarks.phantoms.findings import findings

    sizes = sorted(set(units))
    measured = measure_phantoms(rows, sizes, hashes)
    document = {"rows": rows, "units": sizes, "hashes": hashes, **figures(measured), **asdict(measured)}
    return document | {"findings": list(map(asdict, findings(measured)))}


def measure_phantoms(rows: int, units: Sequence[int], hashes: int) -> Measured:
    """Measure all experiments.

    Rates are means over all hash functions, on a quarter of the rows; costs over a quarter of the functions, on all
    rows.
    """
    with progress_bar("packets") as report:
        report(0, 2)
        uniform = packets(UNIFORM, rows)
        report(1, 2)
        clustered = packets(CLUSTERED, rows)
    with progress_bar("collision rates") as report:
        rates = list(measure_rates((uniform, clustered), rows // 4, hashes, report))
    with progress_bar("divisions of memory") as report:
        found = list(divisions((uniform, clustered), units, report))
    instances = [
        Instance(stream, queries, memory)
        for stream in (uniform, clustered)
        for queries in QUERY_SETS
        for memory in units
    ]
    with progress_bar("choices") as report:
        chosen = list(choices(instances, report))
    few = max(1, hashes // 4)
    with progress_bar("costs") as report:
        run = [each for each in instances if (each.stream.data, each.queries) in MEASURED]
        costs = list(measure_schemes(run, few, report))
    limited = Instance(clustered, PAIRS, PEAK_UNITS), Instance(uniform, SINGLE, AMPLE_UNITS)
    return Measured(
        rates,
        models(),
        found,
        summaries(found),
        chosen,
        one_by_one(Instance(uniform, SINGLE, PEAK_UNITS)),
        costs,
        [each for asked in limited for each in repairs(asked, few)],
    )


def figures(measured: Measured) -> Mapping[str, float]:
    """Return the figures that the paper's claims are about."""
    rates = of_data(measured.rates, SYNTHETIC)
    open_ones, closed = by_closed_optimum(measured.divisions)
    gains = {data: list(measured_gains(measured, data)) for data in (UNIFORM, CLUSTERED)}
    return {
        "collision_points": len(rates),
        "collision_within_5_percent": share(each.error <= NEAR for each in rates),
        "collision_within_5_percent_one_hash": share(each.one_hash_error <= NEAR for each in rates),
        "collision_within_5_percent_packets": share(e.error <= NEAR for e in of_data(measured.rates, UNIFORM)),
        "collision_over_model_clustered": fmean(e.measured / e.precise for e in of_data(measured.rates, CLUSTERED)),
        "rate_variation": measured.models.largest_variation,
        "parabolas_mean_error": measured.models.parabola_errors[0],
        "parabolas_largest_error": measured.models.parabola_errors[1],
        "line_mean_error": measured.models.line_error,
        "trees": len(open_ones),
        **{f"{name.lower()}_over_es": 1.0 + fmean(e.above[name] for e in open_ones) for name in open_ones[0].above},
        "sl_over_es_largest": 1.0 + max(each.above["SL"] for each in open_ones),
        "sl_over_es_closed": 1.0 + fmean(each.above["SL"] for each in closed),
        "choices": len(measured.choices),
        "gc_within_20_percent_of_epes": share(each.gc_over_best <= CLOSE for each in measured.choices),
        "gc_over_epes": fmean(each.gc_over_best for each in measured.choices),
        "gc_over_epes_largest": max(each.gc_over_best for each in measured.choices),
        "choice_over_epes_largest": max(each.chosen_over_best for each in measured.choices),
        "gc_above_gs": sum(each.gc > min(each.gs.values()) for each in measured.choices),
        "choice_above_gs": sum(each.chosen > min(each.gs.values()) for each in measured.choices),
        "gc_ms": max(each.gc_ms for each in measured.choices),
        "choice_ms": max(each.choice_ms for each in measured.choices),
        **{f"gc_measured_over_epes_{data}": largest_ratio(measured, data, GC) for data in gains},
        **{f"gs_measured_over_epes_{data}": largest_ratio(measured, data, GS) for data in gains},
        **{f"measured_gain_{data}": max(gain for _, gain, _ in found) for data, found in gains.items()},
        **{f"gain_limit_{data}": max(limit for _, _, limit in found) for data, found in gains.items()},
    }


def of_data(rates: Iterable[Rate], data: str) -> list[Rate]:
    return [each for each in rates if each.data == data]


def by_closed_optimum(found: Iterable[Division]) -> tuple[list[Division], list[Division]]:
    """Divide into those without and those with a closed optimum."""
    halves: tuple[list[Division], list[Division]] = ([], [])
    for each in found:
        halves[each.has_closed_optimum].append(each)
    return halves


def share(holds: Iterable[bool]) -> float:
    return fmean(map(float, holds))


def by_scheme(measured: Measured, data: str) -> dict[int, dict[str, Cost]]:
    """Return costs by memory and scheme."""
    found: dict[int, dict[str, Cost]] = {}
    for each in measured.costs:
        if each.data == data:
            found.setdefault(each.units, {})[each.scheme] = each
    return found


def largest_ratio(measured: Measured, data: str, scheme: str) -> float:
    """Return the largest ratio of measured costs to that of the configuration which is best by the model."""
    return max(costs[scheme].measured / costs[BEST].measured for costs in by_scheme(measured, data).values())


def measured_gains(measured: Measured, data: str) -> Iterable[tuple[int, float, float]]:
    """Return memory, the cost without phantoms / with those of GC, and the limit of this gain.

    Every record probes one table at least.
    """
    for units, costs in by_scheme(measured, data).items():
        yield units, costs[ALONE].measured / costs[GC].measured, costs[ALONE].measured


def show(document: Document) -> None:
    show_tables(document)
    show_figures({name: value for name, value in document.items() if name not in SECTIONS})
    show_findings(document["findings"])
