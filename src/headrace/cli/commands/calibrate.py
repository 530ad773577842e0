"""`headrace calibrate`: measure what the cost model believes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import rich_click as click

from headrace.cli.files import write_json_document
from headrace.engine.calibration import ROWS, calibrate
from headrace.planner.cost import Constants


@click.command("calibrate")
@click.option("--out", type=click.Path(path_type=Path), help="Write the constants to this JSON file.")
@click.option(
    "--rows",
    type=click.IntRange(10_000),
    default=ROWS,
    show_default=True,
    help="Rows to measure the work on.",
)
def calibrate_command(out: Path | None, rows: int) -> None:
    """Measure the constants of the planner's cost model on this machine: nanoseconds per row, node, addition and byte.

    Plans made with them weigh hashing, evaluating and shipping as this machine does. It takes a few seconds; run it
    when the machine is quiet.

    \b
    Try it:
      headrace calibrate --out constants.json
      headrace explain queries.sql --data DIR --constants constants.json
    """
    usual, measured = asdict(Constants()), asdict(calibrate(rows))
    click.echo(f"{'constant':<14} {'measured':>12} {'built in':>12}")
    for name, value in measured.items():
        click.echo(f"{name:<14} {value:>12,.2f} {usual[name]:>12,.2f}")
    if out is not None:
        write_json_document({name: round(value, 3) for name, value in measured.items()}, out)
        click.echo(f"written to {out}", err=True)
