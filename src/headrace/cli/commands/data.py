"""`headrace data`: write a generated stream and its tables as Parquet files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import rich_click as click

from headrace.cli.output_file import writing
from headrace.cli.progress import progress_bar
from headrace.datasets import KINDS, generate

KIND_HELP = "\n".join(f"      {kind.name:<9} {kind.summary}" for kind in KINDS.values())


@click.command(
    help=f"""Generate a stream of KIND and write it to a new folder: one folder of Parquet files for the stream and for
    each static table, and schema.sql with their declarations. The same seed gives the same rows on every machine.

    \b
    Kinds:
{KIND_HELP}

    \b
    Try it:
      headrace data trades --rows 100000 --out /tmp/trades
      headrace workload otf-low --queries 8 | headrace eval - --data /tmp/trades
    """
)
@click.argument("kind", type=click.Choice(list(KINDS)), metavar="KIND")
@click.option(
    "--rows", type=click.IntRange(1), help="How many rows; the time span grows with them. Default: as in the paper."
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Another seed, other rows.")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Folder to create; it must be new or empty."
)
@click.option("--preset", help="Variant of the kind; packets: gigascope, uniform or skewed.")
@click.option("--flow-length", type=float, help="Mean number of packets in a flow (packets, preset gigascope).")
@click.option("--start", type=click.DateTime(), help="First event time, in UTC.")
@click.option("--rate", type=float, metavar="ROWS", help="Rows a second. Default: as in the paper.")
@click.option("--file-span", type=float, metavar="SECONDS", help="Event time that one file covers.")
@click.option(
    "--disorder", type=float, default=0.0, metavar="SECONDS", show_default=True, help="How late a row may come."
)
def data(
    kind: str,
    rows: int | None,
    seed: int,
    out: Path,
    preset: str | None,
    flow_length: float | None,
    start: datetime | None,
    rate: float | None,
    file_span: float | None,
    disorder: float,
) -> None:
    with writing(out), progress_bar(f"{kind}") as report:
        summary = generate(
            kind,
            rows,
            seed,
            out,
            preset=preset,
            flow_length=flow_length,
            start=start.replace(tzinfo=UTC) if start is not None else None,
            rate=rate,
            file_span_s=file_span,
            disorder_s=disorder,
            progress=report,
        )
    size = f"{summary.bytes / 1e6:,.1f} MB"
    click.echo(f"{summary.rows:,} rows, {summary.files} files, {size} in {out}", err=True)
    click.echo(f"event times {summary.first_time} to {summary.last_time}", err=True)
