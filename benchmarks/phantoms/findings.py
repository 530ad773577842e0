"""What "Multiple aggregations over data streams" found, whether it holds in a run, and why not where it does not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from benchmarks.phantoms.benchmark import (
    CLOSE,
    NEAR,
    Measured,
    by_closed_optimum,
    by_scheme,
    measured_gains,
    of_data,
    share,
)
from benchmarks.phantoms.choice import ALONE, BEST, GC, GS, LIMIT_PERCENTS
from benchmarks.phantoms.rates import CLUSTERED, SYNTHETIC, UNIFORM
from benchmarks.tables import Finding
from headrace.datasets.packets import OPEN_FLOWS

FORMULA = "these are formulas, and give the same figures in every run: something is wrong here."


def findings(measured: Measured) -> Sequence[Finding]:
    return (
        rates_are_precise(measured),
        rates_of_flows(measured),
        rates_depend_on_the_ratio(measured),
        low_rates_are_a_line(measured),
        closed_optima_are_best(measured),
        sl_is_best(measured),
        gc_is_near_the_best(measured),
        gc_is_below_gs(measured),
        gc_measures_well(measured),
        phantoms_pay(measured, UNIFORM, 10.0, "more than an order of magnitude on uniform data [GS figure 13(b)]"),
        phantoms_pay(measured, CLUSTERED, 100.0, "up to about 100 times on clustered data [GS figure 14(b)]"),
        small_excesses_are_shifted(measured),
        choices_are_quick(measured),
    )


def format_list(values: Iterable[float], form: str = ".2f") -> str:
    return ", ".join(format(value, form) for value in values)


def rates_are_precise(measured: Measured) -> Finding:
    found = of_data(measured.rates, SYNTHETIC)
    near, one = share(e.error <= NEAR for e in found), share(e.one_hash_error <= NEAR for e in found)
    packets = share(each.error <= NEAR for each in of_data(measured.rates, UNIFORM))
    return Finding(
        "more than 95% of collision rates are within 5% of the precise model [GS 4.2, figure 5]",
        near >= 0.95,
        f"{near:.1%} of {len(found)} points, means over all hash functions; with one function {one:.1%}; "
        f"of packets without flows {packets:.1%}, as their groups are not equally frequent",
        "the model is the mean over all hash functions, and too few of them were drawn.",
    )


def rates_of_flows(measured: Measured) -> Finding:
    found = of_data(measured.rates, CLUSTERED)
    few, many = ([e.measured / e.precise for e in found if (e.per_bucket <= 1.0) == is_few] for is_few in (True, False))
    return Finding(
        "on clustered data the rate is that of flows, divided by their mean length [GS 4.3]",
        max(*few, *many) <= 1.2,
        f"{fmean(few):.2f} times the model up to a group per bucket, {fmean(many):.2f} above, {max(many):.1f} at most",
        f"{OPEN_FLOWS} flows are open at a time. Two of them in one bucket push each other out with every packet, and "
        "the fewer buckets, the more often they meet; the paper takes that for rare.",
    )


def rates_depend_on_the_ratio(measured: Measured) -> Finding:
    largest = measured.models.largest_variation
    return Finding(
        "for the same groups per bucket, rates vary by less than 1.5% [GS 4.4, table 1]",
        largest < 0.015,
        f"at most {largest:.2%}",
        FORMULA,
    )


def low_rates_are_a_line(measured: Measured) -> Finding:
    error, (mean, largest) = measured.models.line_error, measured.models.parabola_errors
    return Finding(
        "the line of low rates is off by 5% on average, six parabolas by less than 1% and at most by 5% "
        "[GS 4.4, figures 7 and 8]",
        error <= 0.06 and mean < 0.01 and largest < 0.05,
        f"the line {error:.1%}, from a tenth of a group per bucket; parabolas {mean:.2%}, at most {largest:.1%}",
        FORMULA,
    )


def closed_optima_are_best(measured: Measured) -> Finding:
    _, closed = by_closed_optimum(measured.divisions)
    above = [each.above["SL"] for each in closed]
    worst = max(closed, key=lambda each: each.above["SL"])
    elsewhere = max((each.above["SL"] for each in closed if each.units > worst.units), default=0.0)
    return Finding(
        "where the best division has a closed form, it is within 1% of the exhaustive one, at most 2% [GS 6.2]",
        fmean(above) <= 0.01 and max(above) <= 0.02,
        f"{fmean(above):.1%} on average, at most {max(above):.1%}: {worst.tree} in {worst.units:,} units, {worst.data}",
        "the closed form takes rates for proportional to groups per bucket, but where memory is short they level off: "
        f"with more memory it is at most {elsewhere:.1%} above.",
    )


def sl_is_best(measured: Measured) -> Finding:
    holds, here = True, []
    for each in measured.summaries:
        holds &= each.above["SL"] <= min(each.above.values())
        here.append(f"{each.data} {each.units:,}: " + format_list(each.above.values(), ".1%"))
    return Finding(
        "SL is the best closed form on average in every memory, above ES by a few percent [GS table 2]",
        holds,
        f"{', '.join(measured.summaries[0].above)} above ES: " + "; ".join(here),
        "with little memory rates are far off the line that all closed forms go by.",
    )


def gc_is_near_the_best(measured: Measured) -> Finding:
    ratios = [each.gc_over_best for each in measured.choices]
    near = share(ratio <= CLOSE for ratio in ratios)
    return Finding(
        "GC with SL is within 15 to 20% of the best configuration most of the time, by the model [GS 1, 6.3]",
        near > 0.5,
        f"within 20% in {near:.0%} of {len(ratios)} choices, {fmean(ratios) - 1.0:.1%} above on average, at most "
        f"{max(ratios) - 1.0:.1%}",
        "memory is so short that rates are far off the line which SL goes by.",
    )


def gc_is_below_gs(measured: Measured) -> Finding:
    above = [each for each in measured.choices if each.gc > min(each.gs.values())]
    by = max((each.gc / min(each.gs.values()) - 1.0 for each in above), default=0.0)
    return Finding(
        "GC with SL costs less than GS with any entries per group, by the model [GS 6.3, figure 11]",
        not above,
        f"above the best of GS in {len(above)} of {len(measured.choices)} choices, by at most {by:.1%}"
        + (": " + "; ".join(f"{e.data} {e.queries} in {e.units:,}" for e in above) if above else ""),
        "where memory is short, rates are off the line that SL goes by; `choose` asks both and takes the cheaper.",
    )


def gc_measures_well(measured: Measured) -> Finding:
    holds, here = True, []
    for data in (UNIFORM, CLUSTERED):
        costs = by_scheme(measured, data).values()
        gc, gs = ([each[scheme].measured / each[BEST].measured for each in costs] for scheme in (GC, GS))
        holds &= max(gc) <= 3.0 and all(one <= other for one, other in zip(gc, gs, strict=True))
        here.append(f"{data}: GC {format_list(gc)}, the best of GS {format_list(gs)}")
    return Finding(
        "measured, GC with SL is within 3 times the best configuration of the model, GS up to 6 times, and GC always "
        "below GS [GS figures 13(a) and 14(a)]",
        holds,
        "by memory: " + "; ".join(here),
        "below the first table the model's rates are too high, so what is best by it need not be when measured.",
    )


def phantoms_pay(measured: Measured, data: str, factor: float, paper: str) -> Finding:
    found = list(measured_gains(measured, data))
    best = [costs[ALONE].measured / costs[BEST].measured for costs in by_scheme(measured, data).values()]
    return Finding(
        f"phantoms cost less than none by {paper}",
        max(gain for _, gain, _ in found) >= factor,
        "by memory: " + format_list((gain for _, gain, _ in found), ".1f"),
        "every record probes a table, so no phantoms can save more than the cost without them, which is "
        f"{format_list((limit for _, _, limit in found), '.1f')} probes per record; and where that is most, memory is "
        f"short for phantoms too. The best configuration of the model saves {format_list(best, '.1f')}.",
    )


def small_excesses_are_shifted(measured: Measured) -> Finding:
    holds, here = True, []
    for data in (CLUSTERED, UNIFORM):
        ways = {(each.way, each.percent): each.measured for each in measured.repairs if each.data == data}
        percents = sorted({percent for _, percent in ways}, reverse=True)
        won = [p for p in percents if ("shift", p) in ways and ways["shift", p] < ways["shrink", p]]
        holds &= 0 < len(won) < len(percents) and won == percents[: len(won)]
        here.append(f"{data}: shift keeps {sum(way == 'shift' for way, _ in ways)} limits and is cheaper in {len(won)}")
    return Finding(
        "a near limit on the end of an epoch is kept at less cost by a shift, another by shrinking [GS figure 15]",
        holds,
        f"of {len(LIMIT_PERCENTS)} limits, " + "; ".join(here),
        "when phantoms are emptied into queries with fewer entries than groups, each entry more pushes out others. "
        "The paper divides these rates by flow lengths; but by then each group comes only once.",
    )


def choices_are_quick(measured: Measured) -> Finding:
    gc, whole = (max(getattr(each, name) for each in measured.choices) for name in ("gc_ms", "choice_ms"))
    return Finding(
        "a configuration is chosen in a few milliseconds, GC with SL in less than one, in C [GS 1, 6.4]",
        whole < 10.0,
        f"processor time, the slowest of all: GC with SL {gc:.1f} ms, `choose` {whole:.1f} ms",
        "in Python; `choose` asks GC and GS and then moves space.",
    )
