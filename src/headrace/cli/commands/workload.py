"""`headrace workload`: print a generated set of queries."""

from __future__ import annotations

import rich_click as click

from headrace.datasets import WORKLOADS
from headrace.datasets import workload as make_workload

WORKLOAD_HELP = "\n".join(f"      {entry.name:<18} {entry.summary}" for entry in WORKLOADS.values())


@click.command(
    help=f"""Print the queries of a workload as a script: the declarations of its stream and tables first, then one
    CREATE QUERY each. The same seed gives the same queries on every machine.

    \b
    Workloads:
{WORKLOAD_HELP}

    \b
    Try it:
      headrace workload otf-low --queries 256 --seed 7 > queries.sql
      headrace parse queries.sql
    """
)
@click.argument("name", type=click.Choice(list(WORKLOADS)), metavar="NAME")
@click.option("--queries", type=click.IntRange(1), help="How many queries. Default: as in the paper.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Another seed, other queries.")
def workload(name: str, queries: int | None, seed: int) -> None:
    click.echo(make_workload(name, queries, seed).rstrip("\n"))
