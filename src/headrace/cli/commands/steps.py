"""`headrace steps`: the last steps of a job, and what to do with one whose input is gone."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from headrace.cli.commands.queries import directories
from headrace.cli.job_file import read_job
from headrace.cli.jobs import load_catalog
from headrace.engine.step.replay import abandon_input, gone_input
from headrace.engine.step.watermark import BEGINNING_US, ENDED_US
from headrace.model.errors import UsageError, printable
from headrace.model.schema import Catalog
from headrace.model.time import format_timestamp
from headrace.storage.directory import Directory
from headrace.storage.ownership import Owner

SHOWN = 10


@click.group()
def steps() -> None:
    """Show the last steps of a JOB (its TOML file), or abandon input that is gone.

    \b
    Try it:
      headrace steps list job.toml
      headrace steps abandon job.toml 17
    """


@steps.command("list")
@click.argument("job", type=click.Path(path_type=Path))
def list_steps(job: Path) -> None:
    """Show the last steps of each stream, and the one that was begun and is not committed, with its input."""
    for stream, directory in read_states(job)[1]:
        for number in directory.steps()[-SHOWN:]:
            commit = directory.commit(number)
            rows = f"{commit.totals.rows:,} rows so far, {commit.result_sections:,} answers"
            attempt = f", attempt {commit.attempt}" if commit.attempt else ""
            click.echo(f"{stream}: step {number} committed: {rows}{attempt}")
        last = directory.last_commit()
        journal = directory.newest_journal((last.step if last else 0) + 1)
        if journal is not None:
            click.echo(f"{stream}: step {journal.step} begun, with {len(journal.units):,} units of input")
            for path, problem in gone_input(directory, journal).items():
                click.echo(f"  {printable(path)}: {problem}")


@steps.command()
@click.argument("job", type=click.Path(path_type=Path))
@click.argument("step", type=click.IntRange(1))
@click.option("--stream", help="The stream whose step it is; needed if several streams have begun such a step.")
def abandon(job: Path, step: int, stream: str | None) -> None:
    """Let STEP of a job that does not run be finished without the input that is gone or has changed.

    The loss is recorded: the files count as bad files, and windows that may have held their rows are not answered. All
    other input of the step is read when the job is started again.
    """
    catalog, states = read_states(job)
    begun = [
        (name, directory)
        for name, directory in states
        if (stream is None or name == stream) and directory.newest_journal(step) and step not in directory.steps()
    ]
    if len(begun) != 1:
        problem = "no stream has begun" if not begun else "several streams have begun"
        hint = "headrace steps list shows what was begun" if not begun else "say which one: --stream"
        raise UsageError("no-step", f"{problem} step {step} without committing it", hint=hint)
    ((name, directory),) = begun
    owner = Owner(directory)
    try:
        declared = catalog.stream(name)
        journal = abandon_input(directory, step, declared.skew_us if declared else 0)
    finally:
        owner.close()
    lost = [file for file in journal.bad_files if file.reason.startswith("abandoned")]
    for file in lost:
        click.echo(f"abandoned: {printable(file.path)}")
    for span in journal.lost:
        start = "the beginning" if span.start_us <= BEGINNING_US else format_timestamp(span.start_us)
        end = "the end" if span.end_us >= ENDED_US else format_timestamp(span.end_us)
        click.echo(f"{name}: windows that hold times from {start} to {end} are not answered")


def read_states(file: Path) -> tuple[Catalog, list[tuple[str, Directory]]]:
    """Return the catalog of a job file and the states of its streams and results."""
    job = read_job(file)
    catalog = load_catalog(job)
    return catalog, list(directories(job, catalog))
