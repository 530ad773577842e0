"""`python -m benchmarks edge`: how fast the tables at the edge are, and what they drop when records come too fast."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from benchmarks.commands.holistic import read_groups
from benchmarks.commands.spark import drawing, json_option, plot_option, save, show
from headrace.cli.progress import progress_bar

if TYPE_CHECKING:
    from benchmarks.edge import Dropped
    from benchmarks.edge_costs import Costs
    from benchmarks.edge_drops import Losses, Smallest
    from benchmarks.edge_full import FullSpeed
    from benchmarks.edge_speed import Speed
    from benchmarks.holistic import Finding

RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
LOADS = (0.15, 0.3)
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@click.option(
    "--rows", type=click.IntRange(1_000), default=1_000_000, show_default=True, help="How many packets of each kind."
)
@click.option(
    "--rate",
    "rates",
    type=SHARE,
    multiple=True,
    default=RATES,
    show_default=True,
    help="Collision rate of the phantom that its size is chosen for; may be given several times.",
)
@click.option(
    "--groups",
    default="2000,5000,10000,20000,40000",
    show_default=True,
    callback=read_groups,
    help="Numbers of groups in the traces, with commas between them.",
)
@click.option(
    "--load",
    "loads",
    type=SHARE,
    multiple=True,
    default=LOADS,
    show_default=True,
    help="Share of the time that records take if all find their group; may be given several times.",
)
@click.option(
    "--trace-rows", type=click.IntRange(1_000), default=1_000_000, show_default=True, help="Records of a trace."
)
@click.option(
    "--ring", type=click.IntRange(1_000), default=65_536, show_default=True, help="Records that can wait in the ring."
)
@plot_option("the figures")
@json_option
def edge(
    rows: int,
    rates: Sequence[float],
    groups: tuple[int, ...],
    loads: Sequence[float],
    trace_rows: int,
    ring: int,
    plot: Path | None,
    json_file: Path | None,
) -> None:
    """Fixed-memory tables on one core: records per second, and the smallest tables that drop none.

    Packets are uniform in their groups, or come in flows. Tables of AB, BC, BD and CD are fed by a phantom of ABCD.
    What is dropped is simulated: records of a trace arrive at a fixed rate in a ring, the real tables tell what happens
    to each, and how long that takes is measured before. Beside it stands what the paper on holistic UDAFs found. All
    times are those of the processor, so that other programs slow them down little; load_average tells how many ran.

    \b
    records_per_s         of the tables at a collision rate of 10%, second chance;
                          the slower of both kinds of packets
    records_per_s_full    of all of level 1, from rows in memory to the tables of a
                          frame: 4 group-bys, each with each of 4 predicates and
                          3 windows; records_per_s_four: one query for each
    speeds, full          of each kind, replacement, collision rate; of each kind
                          and number of queries
    costs                 ns of a row that finds its group, of one that evicts, of
                          an entry that is flushed or only looked at, and of a
                          partial until it is in a frame
    smallest              the smallest table without a drop, and the losses with
                          half and a quarter of it [UDAF table 1]
    losses                with an eager and with a lazy flush, several queries
                          [UDAF table 2]

    \b
    Try it:
      python -m benchmarks edge --rows 100000 --rate 0.1 --groups 2000 --load 0.4
    """
    # Numba is slow to import, and no other command of this module's users needs it
    from benchmarks.edge import findings, measure_drops, measure_speeds, slowest

    busy = os.getloadavg()[0]
    with progress_bar("speed") as report:
        tables, full = measure_speeds(rows, rates, report)
    figures = slowest(tables, full)
    with progress_bar("drops") as report:
        dropped = measure_drops(groups, loads, trace_rows, ring, report)
    found = findings(dropped)
    show(figures)
    show_speeds(tables, full)
    show_dropped(dropped)
    show_findings(found)
    if plot is not None:
        # matplotlib is an extra, and slow to import
        from benchmarks.edge_plots import plot_edge

        with drawing(plot):
            plot_edge(tables, dropped, plot)
    documents: Mapping[str, Iterable[Any]] = {
        "speeds": tables,
        "full": full,
        "costs": dropped.costs,
        "smallest": dropped.smallest,
        "losses": dropped.losses,
        "findings": found,
    }
    save(
        {"rows": rows, "trace_rows": trace_rows, "ring": ring, "load_average": busy, **figures}
        | {name: [asdict(each) for each in those] for name, those in documents.items()},
        json_file,
    )


# Tables


def show_speeds(tables: Sequence[Speed], full: Sequence[FullSpeed]) -> None:
    click.echo("\nAB, BC, BD and CD below ABCD: count")
    click.echo(
        f"{'packets':<10} {'replacement':<14} {'collisions':>10} {'phantom':>8} {'KB':>6} {'partials':>8} "
        f"{'million/s':>10}"
    )
    for each in tables:
        click.echo(
            f"{each.packets:<10} {each.replacement:<14} {each.collision_rate:>10.1%} {each.phantom_entries:>8,} "
            f"{each.nbytes / 1024:>6,.0f} {each.partials_per_record:>8.3f} {each.records_per_s / 1e6:>10.1f}"
        )
    click.echo("\nlevel 1, from rows to a frame: count and sum, 4 predicates, 3 windows")
    click.echo(f"{'packets':<10} {'queries':>7} {'nodes':>6} {'KB':>6} {'partials':>8} {'million/s':>10}")
    for one in full:
        click.echo(
            f"{one.packets:<10} {one.queries:>7} {one.shipped_nodes:>6} {one.nbytes / 1024:>6,.0f} "
            f"{one.partials_per_record:>8.3f} {one.records_per_s / 1e6:>10.1f}"
        )


def show_dropped(dropped: Dropped) -> None:
    show_costs(dropped.costs)
    show_smallest(dropped.smallest)
    show_losses(dropped.losses)


def show_costs(costs: Iterable[Costs]) -> None:
    click.echo("\nns in one table: count, least and greatest")
    click.echo(f"{'replacement':<14} {'entries':>9} {'hit':>6} {'evict':>6} {'flush':>6} {'look':>6} {'ship':>6}")
    for each in costs:
        click.echo(
            f"{each.replacement:<14} {each.entries:>9,} {each.hit_ns:>6.1f} {each.evict_ns:>6.0f} "
            f"{each.flush_ns:>6.0f} {each.look_ns:>6.1f} {each.ship_ns:>6.0f}"
        )


def show_smallest(smallest: Sequence[Smallest]) -> None:
    """A row for each kind, rate and number of groups; beside each other how tables replace and flush."""
    rows: dict[tuple[str, float, int], list[Smallest]] = {}
    for each in smallest:
        rows.setdefault((each.packets, each.records_per_s, each.groups), []).append(each)
    methods = next(iter(rows.values()))
    click.echo("\ntable 1: the smallest table without a drop, and the loss with half of it")
    click.echo(" " * 28 + "".join(f"{f'{each.replacement}, {each.flush}':>24}" for each in methods))
    click.echo(f"{'packets':<10} {'million/s':>9} {'groups':>7}" + f"{'entries':>16}{'loss':>8}" * len(methods))
    for (packets, records_per_s, groups), cells in rows.items():
        click.echo(
            f"{packets:<10} {records_per_s / 1e6:>9.1f} {groups:>7,}"
            + "".join(
                f"{'none':>16}{'':8}" if each.entries is None else f"{each.entries:>16,}{each.loss_half:>8.1%}"
                for each in cells
            )
        )


def show_losses(losses: Sequence[Losses]) -> None:
    click.echo("\ntable 2: what is lost at the end of a slice, the longest queue as a share of the ring, the time busy")
    click.echo(f"{'queries':>7} {'drops from':>10} {'groups':>7} {'flush':<8} {'loss':>7} {'queue':>6} {'busy':>6}")
    for each in losses:
        for name, loss in each.loss.items():
            click.echo(
                f"{each.queries:>7} {each.fewest_groups:>10,} {each.groups:>7,} {name:<8} {loss:>7.2%} "
                f"{each.longest_queue[name]:>6.0%} {each.busy[name]:>6.0%}"
            )
    click.echo()


def show_findings(found: Iterable[Finding]) -> None:
    for each in found:
        click.echo(f"{'as in the paper' if each.holds else 'UNLIKE the paper'}: {each.paper}")
        click.echo(f"  here: {each.here}")
        if not each.holds:
            click.echo(f"  why: {each.why}")
