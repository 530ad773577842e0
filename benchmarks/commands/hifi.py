"""`python -m benchmarks hifi`: what the six plans of a hierarchy send and compute, beside the paper's figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from benchmarks.commands.spark import drawing, json_option, plot_option, save
from headrace.cli.progress import progress_bar

if TYPE_CHECKING:
    from benchmarks.hifi import Counts, Measured
    from benchmarks.hifi_paper import Figures


@click.command()
@click.option("--rows", type=click.IntRange(1), default=523_761, show_default=True, help="How many packets in a day.")
@click.option("--sets", type=click.IntRange(1), default=50, show_default=True, help="Random query sets of each size.")
@click.option(
    "--checked",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Of how many sets of each size the results of all plans are compared.",
)
@plot_option("figures 7 and 8")
@json_option
def hifi(rows: int, sets: int, checked: int, plot: Path | None, json_file: Path | None) -> None:
    """Plans for queries over an edge and a root, as in "Shared hierarchical aggregation" [HIFI 5, 6].

    Sets of 2 to 32 counts of SYN packets, of all sources and by source, with one slide and random ranges. Edges send
    rows on (none), partials of slices (partial) or windows (full), for all queries together (shared) or for each
    (unshared). All is run by the kernel; figures are means over the sets, for a day and one edge.

    \b
    tuples, bytes           sent to the root, in the interchange format
    predicted               tuples that headrace explain --topology would
                            expect, from a sample
    operations              rows put into partials, and partials into windows
    seconds                 from rows to results, of the checked sets
    checked_sets            sets in which all plans were run to the results,
                            over three edges, and these were equal
    growth_partial_grouped  tuples of 32 grouped queries / of 2, shared partial
    partial_wins_grouped    whether shared partial sends the fewest tuples for
                            grouped queries, of all plans and sizes;
                            partial_wins_grouped_bytes the fewest bytes

    \b
    Try it:
      python -m benchmarks hifi --rows 50000 --sets 3
    """
    # Numba is slow to import, and no other command of this module's users needs it
    from benchmarks.generated import generated
    from benchmarks.hifi import measure

    with progress_bar("generating packets") as report:
        data = generated("syn", rows, 1, report)
    with progress_bar("query sets") as report:
        measured = measure(data, sets, checked, report)
    show_measured(measured)
    if plot is not None:
        # matplotlib is an extra, and slow to import
        from benchmarks.hifi_plots import plot_hifi

        with drawing(plot):
            plot_hifi(measured, plot)
    save(document(measured), json_file)


def document(measured: Measured) -> Mapping[str, Any]:
    from benchmarks.hifi_paper import SECONDS, TUPLES

    cases = [
        {
            "is_grouped": case.is_grouped,
            "queries": case.queries,
            "plans": {scheme: asdict(counts) for scheme, counts in case.counts.items()},
            "seconds": case.seconds,
            "paper_tuples": TUPLES[case.is_grouped].get(case.queries, {}),
            "paper_seconds": SECONDS[case.is_grouped].get(case.queries, {}),
        }
        for case in measured.cases
    ]
    return {
        "rows": measured.rows,
        "sets": measured.sets,
        "checked_sets": measured.checked_sets,
        **claims(measured),
        "cases": cases,
    }


def claims(measured: Measured) -> Mapping[str, Any]:
    from benchmarks.hifi import FULL, PARTIAL

    return {
        "growth_partial_grouped": measured.growth(PARTIAL, True),
        "growth_full_grouped": measured.growth(FULL, True),
        "partial_wins_grouped": measured.wins(PARTIAL, True, lambda counts: counts.tuples),
        "partial_wins_grouped_bytes": measured.wins(PARTIAL, True, lambda counts: counts.bytes),
        "worst_prediction": measured.worst_prediction,
    }


# Tables


def show_measured(measured: Measured) -> None:
    from benchmarks.hifi_paper import SECONDS, TUPLES

    for is_grouped in (False, True):
        kind = "grouped" if is_grouped else "ungrouped"
        show(f"tuples sent, {kind}", measured, is_grouped, lambda counts: counts.tuples, TUPLES[is_grouped])
        show(f"bytes sent, {kind}", measured, is_grouped, lambda counts: counts.bytes, {})
        show(
            f"aggregate operations, {kind}; the paper's are seconds",
            measured,
            is_grouped,
            lambda counts: counts.operations,
            SECONDS[is_grouped],
        )
    click.echo(f"{measured.checked_sets} sets run to the results by all plans: equal")
    for name, value in claims(measured).items():
        click.echo(f"{name:<27} {value if isinstance(value, bool) else f'{value:.2f}'}")


def show(title: str, measured: Measured, is_grouped: bool, of: Callable[[Counts], float], paper: Figures) -> None:
    """A line for each number of queries, and below it what the paper says."""
    schemes = [scheme.rsplit(maxsplit=1) for scheme in measured.cases[0].counts]
    click.echo(title)
    for row, first in ((0, " " * 9), (1, f"{'queries':>9}")):
        click.echo(first + "".join(f" {parts[row]:>16}" for parts in schemes))
    for size in measured.sizes:
        counts = measured.case(is_grouped, size).counts
        click.echo(f"{size:>9}" + "".join(f" {of(each):>16,.0f}" for each in counts.values()))
        said = paper.get(size, {})
        if said:
            cells = (f"{said[scheme]:,.0f}" if scheme in said else "" for scheme in counts)
            click.echo(f"{'paper':>9}" + "".join(f" {cell:>16}" for cell in cells).rstrip())
    click.echo()
