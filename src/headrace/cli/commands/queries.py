"""`headrace queries` and `headrace tables`: change a job while it runs, and see how far its queries are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rich_click as click
from rich.console import Console
from rich.table import Table

from headrace.cli.job_file import Job, read_job
from headrace.cli.jobs import load_catalog, load_script
from headrace.cli.live import LEFT_OUT
from headrace.cli.tables import LEFT, RIGHT, CellColumn, build_table, print_wide
from headrace.engine.chain import beginning_of
from headrace.engine.edge_inbox import holding_back
from headrace.engine.registry import ask, read_registry, requests, wait_for_answer
from headrace.engine.step.completeness import outlook
from headrace.inputs.text_file import STANDARD_INPUT, read_text
from headrace.model.derived_streams import place_of
from headrace.model.errors import HeadraceError, UsageError, nearest, printable
from headrace.model.query import Query
from headrace.model.query_names import check_query_name
from headrace.model.schema import Catalog
from headrace.model.time import format_timestamp
from headrace.planner.explain.description import fair_shares
from headrace.sql import format_stream, parse_next
from headrace.storage.directory import Directory, find_directory, list_states, open_directory, prepare
from headrace.storage.records import QueryState
from headrace.storage.store import open_store

SQL_WIDTH = 60

job_argument = click.argument("job", type=click.Path(path_type=Path))
wait_option = click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the engine's answer.",
)
file_option = click.option(
    "--file", "file", metavar="FILE", help="Read the query from this file; '-' is standard input."
)


@click.group()
def queries() -> None:
    """List, add, drop and replace the queries of a JOB (its TOML file) that runs, or that ran before.

    A change is a request in the state directory of the job. The engine takes it with its next step.
    """


@queries.command("add")
@job_argument
@click.argument("name")
@click.argument("sql", required=False, metavar="['SELECT ...']")
@file_option
@wait_option
def add(job: Path, name: str, sql: str | None, file: str | None, wait_s: float) -> None:
    """Add a query under a NAME; it counts from the next step on.

    \b
    Try it:
      headrace queries add job.toml volume "SELECT sum(Vol) AS volume FROM Trades [RANGE '1 minute']"
    """
    check_query_name(name)
    request("add", read_job(job), name, text_of(sql, file), wait_s, file)


@queries.command("replace")
@job_argument
@click.argument("name")
@click.argument("sql", required=False, metavar="['SELECT ...']")
@file_option
@wait_option
def replace(job: Path, name: str, sql: str | None, file: str | None, wait_s: float) -> None:
    """Put another query in the place of the one called NAME; it starts over."""
    request("replace", read_job(job), name, text_of(sql, file), wait_s, file)


@queries.command("drop")
@job_argument
@click.argument("name")
@wait_option
def drop(job: Path, name: str, wait_s: float) -> None:
    """Drop the query called NAME; its results stay."""
    request("drop", read_job(job), name, None, wait_s)


@queries.command()
@job_argument
@click.argument("name")
@wait_option
def resume(job: Path, name: str, wait_s: float) -> None:
    """Take the query called NAME out of quarantine: it joins again, and answers from its first complete window on.

    A query comes into quarantine when it can't be answered: its expressions or results take too much, or a worker died
    of it. The others continue without it.
    """
    request("resume", read_job(job), name, None, wait_s)


@queries.command("list")
@job_argument
@click.option("--json", "as_json", is_flag=True, help="Print the queries as JSON.")
def list_queries(job: Path, as_json: bool) -> None:
    """Show the queries of a job as they were after its last step."""
    listed = read_job(job)
    states = list(directories(listed, load_catalog(listed)))
    if not states:
        raise UsageError("state", f"there is no state in {listed.state}", hint="headrace run makes it")
    queries = [query for stream, directory in states for query in listing(stream, directory)]
    if as_json:
        click.echo(json.dumps({"queries": [asdict(query) for query in queries]}, ensure_ascii=False, indent=2))
    else:
        print_wide(Console(highlight=False), table_of(queries))
        for query in queries:
            if query.problem:
                click.echo(f"{query.name}: {printable(query.problem)}", err=True)
    waiting = [f"{request.action} {request.name}" for _, directory in states for request in requests(directory)]
    if waiting:
        click.echo(f"requests that wait for a step: {printable(', '.join(waiting))}", err=True)


@click.group()
def tables() -> None:
    """Change the static tables of a JOB (its TOML file) that runs, or that ran before."""


@tables.command("reload")
@job_argument
@click.argument("name")
@wait_option
def reload(job: Path, name: str, wait_s: float) -> None:
    """Let the engine read the files of the static table NAME again; rows that come afterwards are joined to them."""
    owner = read_job(job)
    catalog = load_catalog(owner)
    table = catalog.table(name)
    if table is None:
        hint = nearest(name, [table.name for table in catalog.tables])
        raise UsageError("unknown-name", f"there is no static table '{name}'", hint=hint)
    left_in = [
        (stream, directory, ask(directory, "reload", table.name)) for stream, directory in directories(owner, catalog)
    ]
    if not left_in:
        raise UsageError("state", f"there is no state in {owner.state}", hint="headrace run makes it")
    for stream, directory, id in left_in:
        answer = wait_for_answer(directory, id, wait_s)
        click.echo(describe_answer(f"{table.name} is read again for {stream}", answer, directory, wait_s))


# Requests


def text_of(sql: str | None, file: str | None) -> str:
    if (sql is None) == (file is None):
        raise click.UsageError("give the query as text or with --file, one of them")
    return read_text(file) if file is not None else str(sql)


def request(action: str, job: Job, name: str, sql: str | None, wait_s: float, file: str | None = None) -> None:
    """Leave a request with the stream that the query reads, and print what became of it."""
    catalog = load_catalog(job)
    if sql is None:
        directory, sql = holder(job, catalog, name), ""
    else:
        try:
            directory = directory_for(job, catalog, sql)
        except HeadraceError as problem:
            problem.file = None if file == STANDARD_INPUT else file
            raise
    answer = wait_for_answer(directory, ask(directory, action, name, sql), wait_s)
    click.echo(describe_answer(f"{name}: {DONE[action]}", answer, directory, wait_s))
    warn_of_file(action, job, catalog, name)


def directory_for(job: Job, catalog: Catalog, sql: str) -> Directory:
    """Return the state of the stream that the query reads. For results that nobody read before, it is made."""
    known: dict[str, Query] = {}
    held: dict[str, Directory] = {}
    for _, directory in directories(job, catalog):
        commit = directory.last_commit()
        values = read_registry(directory, commit.registry).values if commit else {}
        known |= values
        held |= dict.fromkeys(values, directory)
    whole, query = parse_next(sql, catalog, known)
    stream, place = whole.stream(query.stream), place_of(query, whole)
    location = f"{job.state}/{place}"
    if stream is None or stream.derived is None or find_directory(location) is not None:
        return open_directory(location)
    upstream = held[stream.name]
    beginning = beginning_of(stream, upstream.last_commit())
    return prepare(location, format_stream(stream), beginning)


def describe_answer(done: str, answer: Mapping[str, Any] | None, directory: Directory, wait_s: float) -> str:
    """Return a sentence on what became of a request; `done` says what it is if it was granted."""
    if answer is None:
        return (
            f"no engine answered within {wait_s:g} s: the request stays in {directory.place('inbox')} "
            "and is taken with the first step when the job runs"
        )
    sentence = f"{done} in step {answer['step']}, version {answer['version']} of the registry"
    if "quarantine" in answer:
        sentence += f"; it is in quarantine: {answer['quarantine']}"
    if "start_us" in answer:
        start, end = (format_timestamp(answer[bound]) for bound in ("start_us", "end_us"))
        sentence += f"; its first complete window is {start} to {end}"
    if answer.get("left_out_count"):
        count = answer["left_out_count"]
        _, last_us = answer["left_out"][-1]
        until = f"up to {format_timestamp(last_us)}" if count == len(answer["left_out"]) else "behind it"
        sentence += f"; {count:,} windows {until} are left out, since slices kept for others can't answer them"
    return sentence


DONE = {"add": "added", "drop": "dropped", "replace": "replaced", "resume": "resumed"}


def warn_of_file(action: str, job: Job, catalog: Catalog, name: str) -> None:
    """Warn if a start of the job undoes the change, since the queries in its files are added at every start."""
    if action not in ("drop", "replace"):
        return
    if name in {named.name for named in load_script(job, catalog=catalog).queries}:
        again = "it comes back" if action == "drop" else "it is replaced by what is written there"
        click.echo(f"{name} is in the files of {job.file} too: {again} when the job is started again", err=True)


def holder(job: Job, catalog: Catalog, name: str) -> Directory:
    """Return the state that has the query, or will have it when its requests are taken; a single state is it anyway."""
    states = list(directories(job, catalog))
    if len(states) == 1:
        return states[0][1]
    for _, directory in states:
        commit = directory.last_commit()
        if name in (commit.queries if commit else {}) or name in {request.name for request in requests(directory)}:
            return directory
    raise UsageError("no-query", f"no stream of {job.file} has a query '{name}'")


def directories(job: Job, catalog: Catalog) -> Iterator[tuple[str, Directory]]:
    """Yield the states of those streams that have been run, and of results that queries read."""
    names = [stream.name for stream in catalog.streams]
    others = [name for name in list_states(open_store(job.state)) if name not in names]
    for name in (*names, *others):
        if (directory := find_directory(f"{job.state}/{name}")) is not None:
            yield name, directory


# How far the queries are


@dataclass(frozen=True, slots=True)
class Listed:
    """A query and how far it is. `cost_share`: its part of the plan's estimated cost, if rows were planned for since it
    came. `waiting_until`: when its first window ends, if it had none yet. `held_back_by`:
    edges that do not count it yet. `left_out`: empty windows beyond those that are answered in a row. `quarantine`: why
    it is not answered.
    """

    stream: str
    name: str
    generation: int
    windows: int
    rows: int
    errors: int
    left_out: int
    cost_share: float | None
    waiting_until: str | None
    held_back_by: list[str]
    problem: str | None
    quarantine: str | None
    sql: str


def listing(stream: str, directory: Directory) -> Iterator[Listed]:
    commit = directory.last_commit()
    registry = read_registry(directory, commit.registry) if commit else None
    if commit is None or registry is None:
        return
    plan = directory.plan(commit.plan) if commit.plan else None
    shares = fair_shares(plan) if plan else {}
    held_back = holding_back(directory, commit, registry)
    for name, registered in registry.queries.items():
        share = shares[name] / plan.cost_ns if plan and name in shares and plan.cost_ns else None
        state = commit.queries.get(name, QueryState(registered.generation))
        is_waiting = not state.windows and registered.quarantine is None
        coming = None if not is_waiting else outlook(directory, commit, registered.query, state)
        until = None if coming is None else format_timestamp(coming.first.end_us)
        counts = registered.generation, state.windows, state.rows, state.errors, state.left_out
        held = held_back.get(name, [])
        why = registered.quarantine
        yield Listed(stream, name, *counts, share, until, held, state.problem, why, registered.sql)


def table_of(queries: list[Listed]) -> Table:
    counts = {"generation": "generation", "windows": "windows", "rows": "rows", "row errors": "errors"}
    if any(query.left_out for query in queries):
        counts[LEFT_OUT] = "left_out"
    columns = [CellColumn("query", [query.name for query in queries])]
    if len({query.stream for query in queries}) > 1:
        columns.insert(0, CellColumn("stream", [query.stream for query in queries]))
    for name, field in counts.items():
        columns.append(CellColumn(name, [f"{getattr(query, field):,}" for query in queries], RIGHT))
    shares = ["" if query.cost_share is None else f"{query.cost_share:.1%}" for query in queries]
    columns.append(CellColumn("cost", shares, RIGHT))
    optional = (
        CellColumn("waiting until", [query.waiting_until or "" for query in queries]),
        CellColumn("held back by", [", ".join(query.held_back_by) for query in queries], {}),
        CellColumn("quarantine", [query.quarantine or "" for query in queries], {}),
    )
    columns += [column for column in optional if any(column.cells)]
    columns.append(CellColumn("SQL", [shorten(query.sql) for query in queries], {**LEFT, "overflow": "ellipsis"}))
    return build_table(columns)


def shorten(sql: str) -> str:
    """Return the beginning, without the columns that every result has."""
    line = printable(" ".join(sql.split())).replace("SELECT window_start, window_end, ", "SELECT ", 1)
    return line if len(line) <= SQL_WIDTH else f"{line[: SQL_WIDTH - 3]}..."
