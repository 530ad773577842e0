"""`headrace explain`: the shared plan of a set of queries, what it costs, and who shares what with whom."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pyarrow as pa
import rich_click as click

from headrace.cli.commands.eval import choose
from headrace.cli.commands.explain_topology import Placement, stream_at_edges, widths_of
from headrace.cli.data_script import data_options, load, read_options
from headrace.cli.files import DataFiles
from headrace.cli.output_file import writing
from headrace.cli.plan_svg import draw_plan
from headrace.cli.scripts import read_functions
from headrace.engine.answers import answer
from headrace.expressions.static_tables import Data
from headrace.inputs.conversion import as_stream
from headrace.inputs.text_file import read_text
from headrace.model.errors import UsageError, nearest
from headrace.model.query import Query
from headrace.model.schema import Stream, Table
from headrace.planner.construction import make_plan
from headrace.planner.cost import FOR_EDGES, Constants, Cost
from headrace.planner.demand import demand
from headrace.planner.explain.description import PlanDescription, explain_addition
from headrace.planner.explain.description import explain as describe
from headrace.planner.explain.text import text
from headrace.planner.placement.push_down import estimates
from headrace.planner.placement.topology import Topology, parse_topology
from headrace.planner.plan import Plan
from headrace.planner.plan_changes import add_query
from headrace.planner.search import Effort
from headrace.planner.statistics import draw
from headrace.sql import Script, parse_query

NARROW, WIDE = 80, 100
"""Columns of the text: as wide as the terminal within these bounds, and narrow where there is none."""


Part = tuple[Stream, Mapping[str, Query], Query | None]
"""A stream, its queries, and the query to be added to them."""

RowsOf = Callable[[Stream | Table], pa.Table]


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What a plan depends on beside queries and data."""

    batch_rows: int
    seed: int
    constants: Constants


@click.command()
@click.argument("queries")
@click.option(
    "--data",
    "path",
    type=click.Path(path_type=Path),
    help="File or folder of the data, as headrace eval takes it: a plan depends on what the data are like. "
    "A job says itself where its data are.",
)
@data_options
@click.option("--functions", metavar="FILE.py", help="Python file with the user functions that the queries call.")
@click.option(
    "--batch-rows",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="How many rows a task has in one batch.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Another seed, another sample and search."
)
@click.option(
    "--query", "names", multiple=True, metavar="NAME", help="Show this query's way; may be given several times."
)
@click.option("--add", "addition", metavar="'SELECT ...'", help="Show what this query would cost in the plan.")
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw the plan into this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the description as JSON.")
@click.option("--constants", metavar="FILE", help="JSON file with the costs of this machine, all of them.")
@click.option(
    "--topology",
    "topology_file",
    metavar="FILE.toml",
    help="Edges, relays and root: show what each of six plans would send over their links, and which sends least.",
)
def explain(
    queries: str,
    path: Path | None,
    event_time: str | None,
    input_format: str | None,
    options: tuple[str, ...],
    functions: str | None,
    batch_rows: int,
    seed: int,
    names: tuple[str, ...],
    addition: str | None,
    svg: Path | None,
    as_json: bool,
    constants: str | None,
    topology_file: str | None,
) -> None:
    """Show the plan that the QUERIES (a script; '-' is standard input; or a job file, *.toml) share, and its cost.

    The plan is a tree of nodes. A node holds partial aggregates for slices of time, cells of predicates and groups; it
    is computed from the stream or from another node, and serves all queries below it. Nothing is run: rows and costs
    are predicted from a sample of the data.

    \b
    Try it:
      headrace data trades --rows 20000 --out /tmp/trades
      headrace workload otf-low --queries 24 > /tmp/queries.sql
      headrace explain /tmp/queries.sql --data /tmp/trades --svg /tmp/plan.svg
      headrace explain /tmp/queries.sql --data /tmp/trades --query otf_low_002
      headrace explain JOB.toml --topology TOPOLOGY.toml
    """
    data = None if path is None else DataFiles(path, input_format, read_options(options))
    script, rows_of, is_at_edges = read_input(queries, data, event_time, functions, batch_rows)
    usual = FOR_EDGES if is_at_edges or topology_file is not None else Constants()
    settings = PlanSettings(batch_rows, seed, usual if constants is None else read_constants(constants))
    chosen = [named.name for named in choose(script, names)] if names else []
    added = None if addition is None else parse_query(addition, script.catalog)
    topology = None if topology_file is None else parse_topology(read_text(topology_file), topology_file)
    plans = [plan_stream(script, *part, rows_of, settings) for part in by_stream(script, added)]
    descriptions = [describe_plan(planned) for planned in plans]
    placement = None if topology is None else place(topology, plans)
    if svg is not None:
        write_drawings(descriptions, svg)
    if as_json:
        document = {"streams": descriptions} | ({} if placement is None else {"placement": placement.document()})
        click.echo(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        texts = [
            text(description, chosen, columns())
            for description in descriptions
            if not names or {query["name"] for query in description["queries"]} & {*chosen}
        ]
        click.echo("\n".join(texts), nl=False)
        if placement is not None:
            click.echo()
            placement.print()


def read_input(
    queries: str, data: DataFiles | None, event_time: str | None, functions: str | None, batch_rows: int
) -> tuple[Script, RowsOf, bool]:
    """Return the queries, a function that reads rows (of the data files or of the job), and whether edges have them."""
    if not queries.endswith(".toml"):
        if data is None:
            raise click.UsageError("a script needs --data: a plan depends on what the data are like")
        return (
            load(queries, data, read_functions(functions), event_time),
            lambda relation: data.read(relation).table,
            False,
        )
    from headrace.cli.job_file import read_job
    from headrace.cli.jobs import check_inputs, load_script, read_sample

    if data is not None or functions is not None:
        raise click.UsageError("a job file says itself where its data and functions are")
    job = read_job(Path(queries))
    script = load_script(job)
    check_inputs(job, script.catalog)
    return script, lambda relation: read_sample(job, relation, batch_rows), bool(job.edges)


def columns() -> int:
    if not sys.stdout.isatty():
        return NARROW
    return min(max(shutil.get_terminal_size().columns, NARROW), WIDE)


def read_constants(path: str) -> Constants:
    """Read the constants from a JSON object that has all of them and nothing else."""
    try:
        document = json.loads(read_text(path))
    except json.JSONDecodeError as problem:
        raise UsageError("constants", f"{path} is not JSON", detail=str(problem)) from None
    known = [field.name for field in fields(Constants)]
    if not isinstance(document, dict):
        raise UsageError("constants", f"{path} is not a JSON object", hint=f"its keys are {', '.join(known)}")
    for key, value in document.items():
        if key not in known:
            raise UsageError("constants", f"{path} has an unknown key '{key}'", hint=nearest(key, known))
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise UsageError("constants", f"{path}: '{key}' is {value!r}, not a number of nanoseconds")
    missing = [key for key in known if key not in document]
    if missing:
        raise UsageError("constants", f"{path} lacks {', '.join(missing)}")
    return Constants(**{key: float(value) for key, value in document.items()})


def by_stream(script: Script, added: Query | None) -> list[Part]:
    """Return the streams that queries read, with their queries and the one to be added, if it reads the stream too."""
    parts: list[Part] = []
    for stream in (*script.catalog.streams, *script.catalog.derived):
        queries = {named.name: named.query for named in script.queries if named.query.stream == stream.name}
        if queries:
            parts.append((stream, queries, added if added is not None and added.stream == stream.name else None))
    if added is not None and not any(part[2] for part in parts):
        raise UsageError(
            "no-queries", f"no query of the script reads {added.stream}, so there is no plan to add this one to"
        )
    return parts


@dataclass(frozen=True, eq=False)
class Planned:
    """A stream, its queries with the one to be added, and the plan without that."""

    stream: Stream
    queries: Mapping[str, Query]
    added: Query | None
    rows: pa.Table
    cost: Cost
    plan: Plan


def plan_stream(
    script: Script,
    stream: Stream,
    queries: Mapping[str, Query],
    added: Query | None,
    rows_of: RowsOf,
    settings: PlanSettings,
) -> Planned:
    everything = [*queries.values(), *([] if added is None else [added])]
    data = data_of(script, stream, everything, rows_of)
    cost = Cost(draw(data, everything, settings.batch_rows, seed=settings.seed), settings.constants)
    plan = make_plan({name: demand(query) for name, query in queries.items()}, cost, Effort(seed=settings.seed))
    return Planned(stream, queries, added, data.rows, cost, plan)


def describe_plan(planned: Planned) -> PlanDescription:
    queries, cost = planned.queries, planned.cost
    description = describe(planned.plan, queries, cost)
    if planned.added is not None:
        name = free_name(queries)
        after = add_query(planned.plan, name, demand(planned.added), cost)
        description["added"] = explain_addition(planned.plan, after, name, {**queries, name: planned.added}, cost)
    return description


def place(topology: Topology, plans: Sequence[Planned]) -> Placement:
    """Estimate six plans of the stream that the edges read."""
    stream = stream_at_edges(topology, [planned.stream for planned in plans])
    planned = next(planned for planned in plans if planned.stream == stream)
    widths = widths_of(planned.rows, planned.cost)
    return Placement(stream.name, topology, estimates(topology, planned.plan, planned.cost.sample, widths))


def data_of(script: Script, stream: Stream, queries: Iterable[Query], rows_of: RowsOf) -> Data:
    """Read the stream and the tables that the queries join. Results are computed from the rows below them."""
    catalog = script.catalog
    needed = {join.table for query in queries for join in query.joins}
    tables = {table.name: rows_of(table) for table in catalog.tables if table.name in needed}
    tables |= {other.name: results(script, other, rows_of) for other in catalog.derived if other.name in needed}
    rows = rows_of(stream) if stream.derived is None else results(script, stream, rows_of)
    return Data(catalog, stream, rows, tables)


def results(script: Script, stream: Stream, rows_of: RowsOf) -> pa.Table:
    query = next(named.query for named in script.queries if named.name == stream.name)
    source = script.catalog.stream(query.stream)
    assert source is not None
    closed = answer(data_of(script, source, [query], rows_of), {stream.name: query}).closed[stream.name]
    if not closed.table.num_rows:
        hint = "more rows, or shorter windows, are needed"
        raise UsageError("no-data", f"{stream.name} has no results over these rows", hint=hint)
    return as_stream(closed.table, stream)


def free_name(queries: Mapping[str, Query]) -> str:
    name = "added"
    while name in queries:
        name += "_"
    return name


def write_drawings(descriptions: list[PlanDescription], path: Path) -> None:
    """Write one file, or one for each stream with a number in its name."""
    for number, description in enumerate(descriptions, start=1):
        target = path if len(descriptions) == 1 else path.with_stem(f"{path.stem}-{number}")
        with writing(target):
            target.write_text(draw_plan(description), encoding="utf-8")
        click.echo(f"the plan of {description['stream']} is drawn in {target}", err=True)
