"""`python -m benchmarks holistic`: quantiles, heavy hitters and distinct counts, at two levels and shared on Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from benchmarks.commands.spark import drawing, json_option, plot_option, save, show
from headrace.cli.progress import progress_bar

if TYPE_CHECKING:
    from benchmarks.holistic import Finding, Measured
    from benchmarks.holistic_hitters import Accuracy
    from benchmarks.holistic_quantiles import Merged
    from benchmarks.holistic_traffic import Cost

PACKETS, SPARK = "packets", "spark"


def read_groups(_: click.Context, __: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        groups = tuple(dict.fromkeys(int(each) for each in text.split(",")))
    except ValueError:
        groups = (0,)
    if min(groups) < 1:
        raise click.BadParameter(f"'{text}' is not a list of numbers above 0, such as 100,1000,10000.")
    return groups


@click.command()
@click.option(
    "--part",
    "parts",
    type=click.Choice([PACKETS, SPARK]),
    multiple=True,
    default=(PACKETS, SPARK),
    show_default=True,
    help="Which half; may be given several times. Only spark needs Java.",
)
@click.option(
    "--rows", type=click.IntRange(1), default=1_000_000, show_default=True, help="How many packets of each kind."
)
@click.option(
    "--groups",
    default="100,1000,10000",
    show_default=True,
    callback=read_groups,
    help="Numbers of groups, with commas between them.",
)
@plot_option("the paper's figures")
@click.option(
    "--trades", type=click.IntRange(1), default=5_000_000, show_default=True, help="How many trades on Spark."
)
@click.option("--queries", type=click.IntRange(4), default=64, show_default=True, help="How many queries on Spark.")
@click.option(
    "--sample",
    type=click.IntRange(4),
    default=8,
    show_default=True,
    help="How many of the queries Spark answers one by one; at least one of each function.",
)
@json_option
def holistic(
    parts: Sequence[str],
    rows: int,
    groups: tuple[int, ...],
    plot: Path | None,
    trades: int,
    queries: int,
    sample: int,
    json_file: Path | None,
) -> None:
    """Sketches at a low and a high level over packets, as in "Holistic UDAFs at streaming speeds"; and shared on Spark.

    Packets are uniform or skewed in their groups, addresses and lengths. Times are ns per packet at each level, and as
    a multiple of the null UDAF, a plain sum in the same kind of loop in the same run; the best of three. What the
    paper found stands beside what was found here, and why, where that differs.

    \b
    quantiles           medians of lengths: low levels lite, medium and heavy with
                        three scratchpads below Greenwald-Khanna summaries; KLL
                        and bucket sketches by batches [UDAF table 3, figure 4]
    hitters             bytes by address: four low levels, below them direct and
                        adaptive (64, 128, 256) sketches; counters by batches
                        [UDAF figures 5 to 9]
    accuracy            of the exact top five of groups: correct, off by one place
                        or by more, missed; and bytes per group and per packet
                        [UDAF figures 10 and 11]
    merged              rank errors after 1,000 merges, and Greenwald-Khanna
                        merged against cut to its size without merges
    holistic_speedup    queries one by one as Spark aggregations of the same
                        declared error, scaled from unshared_sampled of them /
                        all in one bounded shared run
    holistic_over_sums  that run / one of the same windows and predicates with
                        sums only
    checked_rows        windows, of ours and of Spark's, compared with the exact
                        answer before: within the declared error, or an error

    \b
    Try it:
      python -m benchmarks holistic --part packets --rows 100000 --groups 100,1000
      python -m benchmarks holistic --part spark --trades 300000 --queries 12 --sample 4
    """
    figures: dict[str, Any] = {}
    if PACKETS in parts:
        figures |= over_packets(rows, groups, plot)
    if SPARK in parts:
        figures |= over_trades(trades, queries, sample)
    save(figures, json_file)


def over_packets(rows: int, groups: tuple[int, ...], plot: Path | None) -> Mapping[str, Any]:
    # Numba is slow to import, and no other command of this module's users needs it
    from benchmarks.holistic import findings, measure_packets

    with progress_bar("packets") as report:
        measured = measure_packets(rows, groups, report)
    found = findings(measured)
    show_measured(measured, found)
    if plot is not None:
        # matplotlib is an extra, and slow to import
        from benchmarks.holistic_plots import plot_holistic

        with drawing(plot):
            plot_holistic(measured, plot)
    return {
        "rows": rows,
        "groups": groups,
        "quantiles": [cost_document(each) for each in measured.quantiles],
        "hitters": [cost_document(each) for each in measured.hitters],
        "accuracy": [asdict(each) for each in measured.accuracy],
        "merged": [asdict(each) for each in measured.merged],
        "findings": [asdict(each) for each in found],
    }


def over_trades(trades: int, queries: int, sample: int) -> Mapping[str, Any]:
    # PySpark is slow to import
    from benchmarks.holistic_spark import measure_holistic
    from benchmarks.peers import THREADS
    from headrace.datasets import generate
    from headrace.datasets.workloads.holistic import HOLISTIC, SUMS
    from headrace.spark.session import session
    from headrace.spark.single_query import files_in
    from headrace.sql import parse_script

    asked, sums = (
        {named.name: named.query for named in parse_script(each.script(queries, 7)).queries}
        for each in (HOLISTIC, SUMS)
    )
    with tempfile.TemporaryDirectory(prefix="headrace-holistic-") as temporary:
        scratch = Path(temporary)
        with progress_bar("generating trades") as report:
            generate("trades", trades, 1, scratch / "data", progress=report)
        with session(f"local[{THREADS}]") as spark:
            figures = measure_holistic(spark, files_in(scratch / "data"), asked, sums, sample, scratch, progress_bar)
    show(figures)
    click.echo(
        f"unshared_s is scaled to {queries} queries from {figures['unshared_sampled']}, function by function", err=True
    )
    return figures


def cost_document(cost: Cost) -> Mapping[str, Any]:
    return asdict(cost) | {
        "total_ns": cost.total_ns,
        "low_ratio": cost.low_ratio,
        "total_ratio": cost.total_ratio,
    }


# Tables


def show_measured(measured: Measured, found: Iterable[Finding]) -> None:
    show_costs("quantiles", measured.quantiles, measured.groups)
    show_costs("heavy hitters", measured.hitters, measured.groups)
    show_accuracy(measured.accuracy)
    show_merged(measured.merged)
    for each in found:
        click.echo(f"{'as in the paper' if each.holds else 'UNLIKE the paper'}: {each.paper}")
        click.echo(f"  here: {each.here}")
        if not each.holds:
            click.echo(f"  why: {each.why}")
    click.echo()


def show_costs(title: str, costs: Sequence[Cost], groups: Sequence[int]) -> None:
    """A row for each pair of levels, and beside each other the numbers of groups."""
    for traffic in dict.fromkeys(each.traffic for each in costs):
        click.echo(f"{title}, {traffic} packets: ns at the low and the high level, in all as a multiple of null,")
        click.echo("bytes per group at the end")
        click.echo(" " * 28 + "".join(f"{f'{count:,} groups':^32}" for count in groups))
        click.echo(" " * 28 + "".join(f"{'low':>7} {'high':>7} {'x null':>7} {'bytes':>7} " for _ in groups))
        rows: dict[str, list[Cost]] = {}
        for each in costs:
            if each.traffic == traffic:
                rows.setdefault(each.name, []).append(each)
        for name, cells in rows.items():
            click.echo(
                f"{name:<28}"
                + "".join(
                    f"{each.low_ns:>7.1f} {each.high_ns:>7.1f} {each.total_ratio:>7.1f} {each.held_bytes:>7,.0f} "
                    for each in cells
                )
            )
        nulls = [next(each.null_ns for each in costs if (each.traffic, each.groups) == (traffic, n)) for n in groups]
        click.echo(f"{'null':<28}" + "".join(f"{null:>7.1f}{'':25}" for null in nulls) + "\n")


def show_accuracy(found: Sequence[Accuracy]) -> None:
    click.echo("heavy hitters: the exact top five, by their place among those found")
    click.echo(
        f"{'packets':<8} {'groups':>7} {'values':>7} {'high level':<13} {'correct':>8} {'by one':>7} {'by more':>8} "
        f"{'missed':>7} {'bytes/group':>12} {'bytes/packet':>13}"
    )
    for each in found:
        click.echo(
            f"{each.traffic:<8} {each.groups:>7,} {each.distinct:>7,} {each.high:<13} {each.correct:>8.1%} "
            f"{each.off_by_one:>7.1%} {each.off_by_more:>8.1%} {each.missed:>7.1%} {each.bytes_per_group:>12,.0f} "
            f"{each.bytes_per_packet:>13.2f}"
        )
    click.echo()


def show_merged(found: Sequence[Merged]) -> None:
    click.echo("quantiles after merges: the largest errors at 1% to 99%")
    click.echo(
        f"{'values':<8} {'sketch':<18} {'merges':>7} {'bytes':>7} {'rows':>5} {'proven':>8} {'rank':>8} {'value':>8}"
    )
    for each in found:
        rows = "" if each.rows is None else f"{each.rows:,}"
        proven = "" if each.proven_error is None else f"{each.proven_error:.2%}"
        click.echo(
            f"{each.values:<8} {each.sketch:<18} {each.merges:>7,} {each.bytes:>7,} {rows:>5} {proven:>8} "
            f"{each.rank_error:>8.2%} {each.value_error:>8.1%}"
        )
    click.echo()
