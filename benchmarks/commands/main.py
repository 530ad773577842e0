"""`python -m benchmarks`: the claims we make about plans, measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import rich_click as click

from benchmarks.commands.edge import edge
from benchmarks.commands.hifi import hifi
from benchmarks.commands.holistic import holistic
from benchmarks.commands.phantoms import phantoms
from benchmarks.commands.spark import drawing, otf, plot_option, stream
from benchmarks.generated import generated
from benchmarks.nfc import RANDOM_QUERIES, Hashed, experiments
from benchmarks.otf import OURS, WorkloadCounts, count_workload
from benchmarks.planner import compare_with_optimum, compare_with_unshared, time_adding, time_planning
from headrace.cli.files import write_json_document
from headrace.cli.progress import progress_bar
from headrace.planner.cost import Constants

OTF_WORKLOADS = ("otf-windows", "otf-predicates", "otf-regular", "otf-low")
HOUR_OF_TRADES = 1_138_636

json_option = click.option(
    "--json", "json_file", type=click.Path(path_type=Path), help="Write the figures to this JSON file."
)


@click.group()
def bench() -> None:
    """Measure plans: how near they are to the best, how fast they are made, what they save."""


@bench.command()
@click.option(
    "--instances", type=click.IntRange(1), default=200, show_default=True, help="Small instances to solve in all ways."
)
@click.option(
    "--unshared-instances",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="Instances to compare with queries run apart.",
)
@click.option(
    "--queries",
    type=click.IntRange(1),
    multiple=True,
    default=(256, 1_000),
    show_default=True,
    help="How many low-sharing queries to plan; may be given several times. One is added to the first number.",
)
@click.option(
    "--rows", type=click.IntRange(1), default=100_000, show_default=True, help="Rows of the batch that is planned for."
)
@json_option
def planner(
    instances: int, unshared_instances: int, queries: tuple[int, ...], rows: int, json_file: Path | None
) -> None:
    """The planner against the best of all trees, against no sharing, and against the clock.

    \b
    mean_ratio, worst_ratio  cost of the tree found / least cost of all trees of unions
    drawn_...                the same with few unions drawn at random, as among many leaves
    above_unshared           plans predicted to cost more than their queries run apart
    plan_N_s                 seconds to plan N queries of otf-low
    gain_N                   predicted cost of those queries run apart / of the plan
    add_one_ms, drop_one_ms  the longest of 12 changes of a plan by one query
    """
    figures: dict[str, float] = {}
    with progress_bar("against the optimum") as report:
        figures |= compare_with_optimum(instances, report)
    with progress_bar("against no sharing") as report:
        figures |= compare_with_unshared(unshared_instances, report)
    with progress_bar("generating trades") as report:
        trades = generated("trades", rows, 1, report)
    for count in queries:
        figures |= time_planning(trades, count, rows)
    figures |= time_adding(trades, queries[0], rows)
    show(figures)
    save(figures, json_file)


@bench.command()
@click.option(
    "--workload",
    "workloads",
    type=click.Choice(OTF_WORKLOADS),
    multiple=True,
    default=OTF_WORKLOADS,
    show_default=True,
    help="Which workload; may be given several times.",
)
@click.option("--queries", type=click.IntRange(1), default=256, show_default=True, help="How many queries.")
@click.option(
    "--rows", type=click.IntRange(1), default=HOUR_OF_TRADES, show_default=True, help="How many trades are generated."
)
@json_option
def counts(workloads: tuple[str, ...], queries: int, rows: int, json_file: Path | None) -> None:
    """Aggregate operations of the plans of OTF 6.2-6.4 and of our plan, counted over generated trades.

    A partial operation puts a row into a partial, a final one a partial into another or into a window. No engine runs:
    operations are counted, and beside them stand the paper's counts over its own trades.
    """
    with progress_bar("generating trades") as report:
        trades = generated("trades", rows, 1, report)
    found = []
    for name in workloads:
        found.append(count_workload(name, queries, trades, Constants()))
        show_counts(found[-1])
    save({each.workload: counts_document(each) for each in found}, json_file)


@bench.command()
@click.option(
    "--rows", type=click.IntRange(1), default=3_000_000, show_default=True, help="How many flows are generated."
)
@click.option("--rate", type=float, default=5_000.0, show_default=True, help="Flows a second at the router.")
@click.option(
    "--queries",
    type=click.IntRange(1),
    multiple=True,
    default=RANDOM_QUERIES,
    show_default=True,
    help="Size of a random set of queries; may be given several times.",
)
@plot_option("the factors")
@json_option
def nfc(rows: int, rate: float, queries: tuple[int, ...], plot: Path | None, json_file: Path | None) -> None:
    """Rows hashed by each query apart and by the shared tree, over generated flows [NFC VI].

    FlowCollector's queries over periods of 1 to 10 minutes, then random sets of several sizes over 5 minutes. The
    tree is planned for the fewest rows hashed, from a sample, and then run over all rows. `best` is the factor that no
    tree can exceed on these flows.
    """
    with progress_bar("generating flows") as report:
        flows = generated("netflow", rows, 1, report, rate)
    click.echo(
        f"{'workload':<18} {'queries':>7} {'period':>7} {'apart':>13} {'shared':>13} {'factor':>7} {'predicted':>9}"
        f" {'best':>5}"
    )
    found = []
    for each in experiments(flows, queries):
        found.append(each)
        click.echo(
            f"{each.workload:<18} {each.queries:>7} {each.period_s:>5} s {each.naive:>13,} {each.executed:>13,} "
            f"{each.factor:>7.2f} {each.predicted_factor:>9.2f} "
            + ("" if each.best_factor is None else f"{each.best_factor:>5.2f}")
        )
    if plot is not None:
        draw_factors(found, plot)
    save(
        [
            asdict(each)
            | {
                "factor": each.factor,
                "predicted_factor": each.predicted_factor,
                "best_factor": each.best_factor,
            }
            for each in found
        ],
        json_file,
    )


class KernelWorkload(NamedTuple):
    """Queries of a workload over generated data, as many as are taken unless told."""

    name: str
    kind: str
    queries: int
    rows: int


KERNEL_WORKLOADS: Mapping[str, KernelWorkload] = {
    **{name.removeprefix("otf-"): KernelWorkload(name, "trades", 256, 5_000_000) for name in OTF_WORKLOADS},
    "grouped": KernelWorkload("grouped", "netflow", 128, 1_000_000),
    "syn": KernelWorkload("hifi-grouped", "syn", 32, 523_761),
}


@bench.command()
@click.option(
    "--workload",
    type=click.Choice(list(KERNEL_WORKLOADS)),
    default="low",
    show_default=True,
    help="Which workload.",
)
@click.option("--queries", type=click.IntRange(1), help="How many queries. Default: 256; grouped 128, syn 32.")
@click.option(
    "--rows",
    type=click.IntRange(1),
    help="How many rows are generated. Default: 5000000; grouped 1000000, syn 523761.",
)
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=16,
    show_default=True,
    help="How many of the queries DuckDB and Polars answer.",
)
@json_option
def kernel(workload: str, queries: int | None, rows: int | None, sample: int, json_file: Path | None) -> None:
    """The kernel in this process against no sharing, DuckDB and Polars, over generated data in memory.

    The results of the sampled queries are compared with DuckDB's and Polars' first, row by row; a difference is an
    error.

    \b
    Workloads:
      windows, predicates,  sums over trades, joined with two tables
      regular, low          [OTF 6.2-6.4]
      grouped               16 group-bys x 8 predicates over NetFlow records
      syn                   SYN packets per source, 32 windows [HIFI 6.1]

    \b
    checked_rows          rows of windows compared with DuckDB and with Polars
    plan_s, kernel_s      seconds to plan, and to answer all queries by that plan
    rows_per_s            rows / kernel_s
    rows_per_s_one_query  the same of a query alone, the median of a few
    level1_rows           rows that leave level 1, of all batches
    level1_share          level1_rows / rows
    peak_mb               growth of resident memory at its peak, while answering
    lattice_gain          time with every leaf from the stream / by the plan,
                          over apart_rows rows
    apart_s               the first of these two times
    duckdb_s, polars_s    all queries one after the other, scaled from
                          peer_sampled queries

    \b
    Try it:
      python -m benchmarks kernel --workload grouped --queries 16 --rows 100000
      python -m benchmarks kernel --workload syn
    """
    # Numba is slow to import, and no other benchmark needs it
    from benchmarks.kernel import measure_kernel, queries_of

    chosen = KERNEL_WORKLOADS[workload]
    asked = queries_of(chosen.name, queries or chosen.queries)
    with progress_bar(f"generating {chosen.kind}") as report:
        data = generated(chosen.kind, rows or chosen.rows, 1, report)
    with progress_bar("checking results") as report:
        figures = measure_kernel(data, asked, sample, report)
    show(figures)
    save({"workload": workload, **figures}, json_file)


def draw_factors(found: list[Hashed], path: Path) -> None:
    # matplotlib is an extra, and slow to import
    from benchmarks.plots import plot_factors

    with drawing(path):
        plot_factors(found, path)


def show(figures: Mapping[str, float]) -> None:
    for name, value in figures.items():
        click.echo(f"{name:<20} {value:>12,.0f}" if float(value).is_integer() else f"{name:<20} {value:>12,.3f}")


def show_counts(found: WorkloadCounts) -> None:
    click.echo(f"{found.workload}: {found.queries} queries, {found.rows:,} rows")
    click.echo(f"  {'':<18} {'partial':>13} {'final':>13} {'all / ours':>10}   {'paper: partial':>14} {'final':>13}")
    for scheme, counted in found.counted.items():
        paper = found.paper.get(scheme)
        beside = f"   {paper.partial:>14,} {paper.final:>13,}" if paper else ""
        click.echo(f"  {scheme:<18} {counted.partial:>13,} {counted.final:>13,} {found.fewer(scheme):>10.1f}{beside}")
    click.echo(f"  predicted time: each query apart / our plan = {found.predicted_gain:.1f}\n")


def counts_document(found: WorkloadCounts) -> Mapping[str, object]:
    return {
        "queries": found.queries,
        "rows": found.rows,
        "counted": {scheme: asdict(each) for scheme, each in found.counted.items()},
        "paper": {scheme: asdict(each) for scheme, each in found.paper.items()},
        "fewer": {scheme: found.fewer(scheme) for scheme in found.counted if scheme != OURS},
        "predicted_gain": found.predicted_gain,
    }


def save(figures: object, path: Path | None) -> None:
    if path is not None:
        write_json_document(figures, path)
        click.echo(f"written to {path}", err=True)


bench.add_command(edge)
bench.add_command(hifi)
bench.add_command(holistic)
bench.add_command(otf)
bench.add_command(phantoms)
bench.add_command(stream)
