"""`python -m benchmarks otf` and `python -m benchmarks stream`: the engine on Spark, from files to results."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import rich_click as click

from headrace.cli.files import write_json_document
from headrace.cli.output_file import writing
from headrace.cli.progress import progress_bar

PICTURES = (".svg", ".png", ".pdf")

json_option = click.option(
    "--json", "json_file", type=click.Path(path_type=Path), help="Write the figures to this JSON file."
)


def check_picture(_context: click.Context, _option: click.Parameter, path: Path | None) -> Path | None:
    """Before anything is measured."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise click.BadParameter(f"'{path}' does not end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}.")
    return path


def plot_option(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    told = f"Draw {what} into this file (SVG, PNG or PDF)."
    return click.option("--plot", type=click.Path(path_type=Path), callback=check_picture, help=told)


class SparkWorkload(NamedTuple):
    """Queries of a workload over generated data, as many as are taken unless told."""

    name: str
    kind: str
    queries: int
    rows: int


WORKLOADS: Mapping[str, SparkWorkload] = {
    **{
        name: SparkWorkload(f"otf-{name}", "trades", 256, 5_000_000)
        for name in ("windows", "predicates", "regular", "low")
    },
    "grouped": SparkWorkload("grouped", "netflow", 128, 1_000_000),
}


@click.command()
@click.option(
    "--workload", type=click.Choice(list(WORKLOADS)), default="low", show_default=True, help="Which workload."
)
@click.option("--queries", type=click.IntRange(1), help="How many queries. Default: 256; grouped 128.")
@click.option("--rows", type=click.IntRange(1), help="How many rows are generated. Default: 5000000; grouped 1000000.")
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=16,
    show_default=True,
    help="How many of the queries Spark, DuckDB and Polars answer one by one.",
)
@json_option
def otf(workload: str, queries: int | None, rows: int | None, sample: int, json_file: Path | None) -> None:
    """All queries shared on Spark against each by itself on Spark, DuckDB and Polars, from Parquet files to results.

    The answers of the sampled queries are compared first, row by row; a difference is an error. Everything is warm.
    The shared run starts from an empty state directory, reads tables and files, and ends when the last result file
    has its name: the median of three runs. Needs Java.

    \b
    Workloads:
      windows, predicates,  sums over trades, joined with two tables
      regular, low          [OTF 6.2-6.4]
      grouped               16 group-bys x 8 predicates over NetFlow records

    \b
    checked_rows          rows of windows compared with Spark, DuckDB and Polars
    shared_s, plan_s      seconds of the shared run without planning, and to plan
    unshared_s            all queries one after the other as Spark aggregations,
                          scaled from unshared_sampled queries
    single_s              one of them, the median
    speedup               unshared_s / shared_s
    price_of_one          shared_s / single_s
    lattice_gain          the job with every leaf from the stream / by the plan
    level1_rows           rows that leave level 1; level1_share is of all rows
    duckdb_s, polars_s    all queries in these, scaled from the same sample;
                          duckdb_gain and polars_gain are these / shared_s
    stages                where the time of the shared run goes, in seconds:
                          open (state, tables), begin (list files, journal),
                          plan, run (the Spark job), commit, finish (show
                          results, tidy up)

    \b
    Try it:
      python -m benchmarks otf --workload low --queries 16 --rows 200000 --sample 2
      python -m benchmarks otf --workload grouped --json grouped.json
    """
    # PySpark and Numba are slow to import, and no other command of this module's users needs them
    from benchmarks.kernel import queries_of
    from benchmarks.peers import THREADS
    from benchmarks.spark_otf import measure_otf
    from headrace.datasets import generate
    from headrace.spark.session import session
    from headrace.spark.single_query import files_in

    chosen = WORKLOADS[workload]
    asked = queries_of(chosen.name, queries or chosen.queries)
    with tempfile.TemporaryDirectory(prefix="headrace-otf-") as temporary:
        scratch = Path(temporary)
        with progress_bar(f"generating {chosen.kind}") as report:
            generate(chosen.kind, rows or chosen.rows, 1, scratch / "data", progress=report)
        with session(f"local[{THREADS}]") as spark:
            figures = measure_otf(spark, files_in(scratch / "data"), asked, sample, scratch, progress_bar)
    told = {"workload": workload, **figures}
    show(told)
    save(told, json_file)


@click.command()
@click.option(
    "--queries",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="How many queries; a square number, as they pair windows and predicates.",
)
@click.option(
    "--steps", type=click.IntRange(4), default=200, show_default=True, help="Steps of the main run; otf-low a quarter."
)
@click.option("--step-rows", type=click.IntRange(1), default=100_000, show_default=True, help="Rows of each step.")
@click.option(
    "--rate", type=float, default=5_000.0, show_default=True, help="Rows in a second of event time, not of the clock."
)
@click.option(
    "--by-queries",
    type=click.IntRange(1),
    multiple=True,
    default=(1, 16, 256, 1_000),
    show_default=True,
    help="Numbers of otf-low queries for the short runs; may be given several times.",
)
@json_option
def stream(
    queries: int, steps: int, step_rows: int, rate: float, by_queries: tuple[int, ...], json_file: Path | None
) -> None:
    """The engine on Spark in steady state: one file of trades after the other, a step for each.

    Steps follow each other without waiting, and files are written between them, off the clock. Figures are of
    otf-regular queries, and with `_low` behind the name of otf-low queries over a quarter of the steps. Needs Java.

    \b
    rows_per_s             rows / time of the steps, after the first 10
    batch_ms_p50, _p95     milliseconds of a step
    add_batches            steps until a query added meanwhile is in; 1 is best
    rss_growth             resident memory of Python, the JVM and its workers in
                           steps 181-200 / in steps 31-50, minus 1; with other
                           numbers of steps in rss_steps, the same parts of them
    store_files_max        most slice files that a reducer had at a time
    rows_per_s_by_queries  by number of otf-low queries, in runs of 15 steps
                           after 5 to warm up
    layouts_ms_p50         milliseconds of a step of 64 queries with 64
                           different group-bys, over flows
    stages_ms              where the time of a step goes, on average

    \b
    Try it:
      python -m benchmarks stream --queries 16 --steps 20 --step-rows 20000 --by-queries 1
    """
    # PySpark and Numba are slow to import, and no other command of this module's users needs them
    from benchmarks.peers import THREADS
    from benchmarks.spark_stream import FULL_STEPS, Size, measure_stream
    from headrace.spark.session import session

    with tempfile.TemporaryDirectory(prefix="headrace-stream-") as temporary, session(f"local[{THREADS}]") as spark:
        figures = measure_stream(
            spark, queries, Size(steps, step_rows, rate), by_queries, Path(temporary), progress_bar
        )
    show(figures)
    if steps != FULL_STEPS:
        click.echo(f"{steps} steps instead of {FULL_STEPS}: memory is compared between rss_steps", err=True)
    save(figures, json_file)


def show(figures: Mapping[str, Any], indent: str = "") -> None:
    """One figure per line, those of a group below its name."""
    for name, value in figures.items():
        label = f"{indent}{name:<{24 - len(indent)}}"
        match value:
            case Mapping():
                click.echo(label.rstrip())
                show(value, indent + "  ")
            case int() | float():
                click.echo(f"{label} {value:>14,.0f}" if float(value).is_integer() else f"{label} {value:>14,.3f}")
            case _:
                click.echo(f"{label} {value!s:>14}")


def save(figures: object, path: Path | None) -> None:
    if path is not None:
        write_json_document(figures, path)
        click.echo(f"written to {path}", err=True)


@contextmanager
def drawing(path: Path) -> Iterator[None]:
    with writing(path):
        yield
    click.echo(f"drawn into {path}", err=True)
