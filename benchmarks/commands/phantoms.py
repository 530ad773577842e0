"""`python -m benchmarks phantoms`: tables of fixed size, and what group-bys that nobody asked for save."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from benchmarks.commands.spark import drawing, json_option, plot_option, save, show
from headrace.cli.progress import progress_bar

if TYPE_CHECKING:
    from benchmarks.holistic import Finding
    from benchmarks.phantoms import Measured

UNITS = (20_000, 40_000, 60_000, 80_000, 100_000)


@click.command()
@click.option(
    "--rows", type=click.IntRange(1_000), default=1_000_000, show_default=True, help="How many packets of each kind."
)
@click.option(
    "--units",
    type=click.IntRange(1_000),
    multiple=True,
    default=UNITS,
    show_default=True,
    help="Memory for all tables, in units of 4 bytes; may be given several times.",
)
@click.option(
    "--hashes",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Hash functions that collision rates are the means of; a quarter of them for costs.",
)
@plot_option("the paper's figures")
@json_option
def phantoms(rows: int, units: Sequence[int], hashes: int, plot: Path | None, json_file: Path | None) -> None:
    """Collision rates, divisions of memory and choices of phantoms, as in "Multiple aggregations over data streams".

    Packets have four attributes and 2,837 groups; they are drawn at random (uniform) or come in interleaved flows of
    32 (clustered). Rates and costs are counted by the edge's own tables, direct mapped, once they are full: 1 for a
    probe, 50 for an entry that leaves a query. What the paper found stands beside what was found here, and why, where
    that differs.

    \b
    collision_within_5_percent    points of figure 5 as near to the model
    sl_over_es, sr_..., pl_...    cost of a closed form / of the best
                                  division, a mean over trees [GS table 2]
    gc_within_20_percent_of_epes  choices of GC with SL as near to the best
                                  configuration, by the model
    gc_above_gs                   choices where GS is cheaper, by the model
    gc_measured_over_epes_...     measured cost of GC with SL / of what is
                                  best by the model, the largest
    measured_gain_...             measured cost without phantoms / with GC's
    gain_limit_...                what no gain exceeds: a record is a probe
    gc_ms, choice_ms              processor time of GC, of all of `choose`

    \b
    Try it:
      python -m benchmarks phantoms --rows 100000 --units 40000 --hashes 4
    """
    # Numba is slow to import, and no other command of this module's users needs it
    from benchmarks.phantoms import figures, measure_phantoms
    from benchmarks.phantoms_findings import findings

    measured = measure_phantoms(rows, sorted(set(units)), hashes, progress_bar)
    found, told = figures(measured), findings(measured)
    show_measured(measured)
    show(found)
    show_findings(told)
    if plot is not None:
        # matplotlib is an extra, and slow to import
        from benchmarks.phantoms_plots import plot_phantoms

        with drawing(plot):
            plot_phantoms(measured, plot)
    document = {"rows": rows, "units": sorted(set(units)), "hashes": hashes, **found}
    save(document | asdict(measured) | {"findings": [asdict(each) for each in told]}, json_file)


# Tables


def show_measured(measured: Measured) -> None:
    show_rates(measured)
    show_models(measured)
    show_divisions(measured)
    show_choices(measured)
    show_steps(measured)
    show_costs(measured)
    show_repairs(measured)


def show_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """The first column to the left, figures to the right."""
    lines = [header, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
    click.echo(title)
    for first, *others in lines:
        figures = " ".join(f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        click.echo(f"  {first:<{widths[0]}} {figures}")
    click.echo()


def show_rates(measured: Measured) -> None:
    lines: dict[tuple[str, str, int], list[str]] = {}
    ratios = list(dict.fromkeys(each.per_bucket for each in measured.rates))
    for each in measured.rates:
        line = lines.setdefault((each.data, each.relation, each.groups), [])
        line.append(f"{each.measured:.4f} {each.measured / each.precise - 1.0:>+5.0%}")
    show_table(
        "figure 5: collision rates by groups per bucket, and how far from the precise model",
        ["data", "relation", "groups", *(f"{ratio:g}" for ratio in ratios)],
        ([data, relation, f"{groups:,}", *line] for (data, relation, groups), line in lines.items()),
    )


def show_models(measured: Measured) -> None:
    models = measured.models
    show_table(
        "figure 6: what buckets of k groups add to the rate, 3,000 groups in 1,000 buckets",
        ["k", *(str(k) for k, _ in models.terms)],
        [["part", *(f"{part:.3f}" for _, part in models.terms)]],
    )
    show_table(
        "table 1: how far precise rates of 300 to 3,000 buckets are apart, by groups per bucket",
        ["groups per bucket", *(f"{ratio:g}" for ratio, _ in models.variation)],
        [["variation", *(f"{found:.2%}" for _, found in models.variation)]],
    )
    mean, largest = models.parabola_errors
    click.echo(f"figure 7: six parabolas are off by {mean:.2%} on average, {largest:.1%} at most")
    click.echo(f"figure 8: the line of low rates is off by {models.line_error:.1%} on average\n")


def show_divisions(measured: Measured) -> None:
    from benchmarks.phantoms_space import REPRESENTATIVE

    names = list(measured.divisions[0].above)
    show_table(
        "figures 9 and 10: cost above that of the best division",
        ["tree", "data", "units", "best", *names],
        (
            [
                each.tree,
                each.data,
                f"{each.units:,}",
                f"{each.best:.2f}",
                *(f"{each.above[name]:.1%}" for name in names),
            ]
            for tree in REPRESENTATIVE
            for each in measured.divisions
            if each.tree == tree
        ),
    )
    show_table(
        "tables 2 and 3: means over all trees without a closed optimum; how often SL is best, and else how far behind",
        ["data", "units", "trees", *names, "SL best", "behind"],
        (
            [
                each.data,
                f"{each.units:,}",
                str(each.trees),
                *(f"{each.above[name]:.1%}" for name in names),
                f"{each.sl_best:.0%}",
                f"{each.sl_behind:.1%}",
            ]
            for each in measured.summaries
        ),
    )


def show_choices(measured: Measured) -> None:
    phis = list(measured.choices[0].gs)
    show_table(
        "figure 11: modelled cost per record; GS by its entries per group",
        ["data", "queries", "units", "none", *(f"GS {phi}" for phi in phis), "GC+SL", "choose", "best", "ms"],
        (
            [
                each.data,
                each.queries,
                f"{each.units:,}",
                *(f"{paid:.2f}" for paid in (each.alone, *each.gs.values(), each.gc, each.chosen, each.best)),
                f"{each.choice_ms:.1f}",
            ]
            for each in measured.choices
        ),
    )


def show_steps(measured: Measured) -> None:
    most = max(map(len, measured.steps.values()))
    show_table(
        "figure 12: modelled cost as phantoms join",
        ["phantoms", *map(str, range(most))],
        (
            [name, *(f"{paid:.2f}" for paid in costs), *[""] * (most - len(costs))]
            for name, costs in measured.steps.items()
        ),
    )


def show_costs(measured: Measured) -> None:
    show_table(
        "figures 13 and 14: cost per record by the paper's model, by the sifted one, and measured;\n"
        "then of the end of an epoch, by the model, measured, and of one entry for each group",
        ["data", "units", "scheme", "modelled", "sifted", "measured", "end: model", "measured", "groups", "tree"],
        (
            [
                each.data,
                f"{each.units:,}",
                each.scheme,
                *(f"{paid:.2f}" for paid in (each.modelled, each.sifted, each.measured)),
                *(f"{paid:,.0f}" for paid in (each.end_modelled, each.end_measured, each.end_groups)),
                each.tree,
            ]
            for each in measured.costs
        ),
    )


def show_repairs(measured: Measured) -> None:
    show_table(
        "figure 15: measured costs, per record and of the end of an epoch, with a limit on the latter",
        ["data", "queries", "units", "% of its cost", "way", "cost", "without", "end"],
        (
            [
                each.data,
                each.queries,
                f"{each.units:,}",
                str(each.percent),
                each.way,
                f"{each.measured:.2f}",
                f"{each.unlimited:.2f}",
                f"{each.end_measured:,.0f}",
            ]
            for each in measured.repairs
        ),
    )


def show_findings(found: Iterable[Finding]) -> None:
    click.echo()
    for each in found:
        click.echo(f"{'as in the paper' if each.holds else 'UNLIKE the paper'}: {each.paper}")
        click.echo(f"  here: {each.here}")
        if not each.holds:
            click.echo(f"  why: {each.why}")
