"""`headrace rescale`, `backup` and `restore`: the state of a job as a whole."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from headrace.cli.commands.queries import describe_answer, directories, job_argument, wait_option
from headrace.cli.job_file import read_job
from headrace.cli.jobs import load_catalog
from headrace.cli.progress import progress_bar
from headrace.engine.registry import ask, wait_for_answer
from headrace.model.errors import UsageError
from headrace.model.key_groups import KEY_GROUPS
from headrace.storage.backup import back_up
from headrace.storage.ownership import check_free
from headrace.storage.store import open_store, place_of


@click.command()
@job_argument
@click.option(
    "--reducers", type=click.IntRange(1, KEY_GROUPS), required=True, help="How many parts the state is split into."
)
@wait_option
def rescale(job: Path, reducers: int, wait_s: float) -> None:
    """Split the state of a JOB (its TOML file) into another number of parts.

    It takes effect with the next step of each stream, and needs no stop. Each part is the work of one task, so more
    parts than the cluster has cores do not help.

    \b
    Try it:
      headrace rescale job.toml --reducers 16
    """
    spec = read_job(job)
    states = list(directories(spec, load_catalog(spec)))
    if not states:
        hint = "headrace run makes it; 'reducers' in the section 'engine' says how many parts it begins with"
        raise UsageError("state", f"there is no state in {spec.state}", hint=hint)
    waiting = [(stream, directory, ask(directory, "rescale", str(reducers))) for stream, directory in states]
    for stream, directory, id in waiting:
        answer = wait_for_answer(directory, id, wait_s)
        click.echo(describe_answer(f"{stream}: {reducers} reducers", answer, directory, wait_s))


@click.command()
@job_argument
@click.argument("target")
def backup(job: Path, target: str) -> None:
    """Copy the state of a JOB (its TOML file) to TARGET, an empty directory or place in an object store.

    The job may run meanwhile. The copy is that of its last commit, of each stream. Input and files of results are not
    part of it.

    \b
    Try it:
      headrace backup job.toml /backups/monday
      headrace backup job.toml s3://bucket/backups/monday
    """
    spec = read_job(job)
    with progress_bar("copying the state") as report:
        steps = back_up(open_store(spec.state), open_store(target), report)
    describe_copies(steps, target)


@click.command()
@job_argument
@click.argument("source")
def restore(job: Path, source: str) -> None:
    """Copy a state from SOURCE, where `headrace backup` put it, to where a JOB (its TOML file) has its state.

    There must be no state yet: move the old one away first. Results that were written after the backup are in the way
    of the restored job: `headrace run --reset-results` moves them aside.

    \b
    Try it:
      headrace restore job.toml /backups/monday
    """
    spec = read_job(job)
    store = open_store(spec.state)
    for stream in load_catalog(spec).streams:
        check_free(open_store(place_of(store, stream.name)))
    with progress_bar("copying the state") as report:
        steps = back_up(open_store(source), store, report)
    describe_copies(steps, spec.state)


def describe_copies(steps: dict[str, int], place: str) -> None:
    for name, step in steps.items():
        click.echo(f"{name}: step {step} is in {place}/{name}")
