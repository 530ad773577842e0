"""`headrace run`: a job on Spark, until it is stopped or all input is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click
from rich.console import Console

from headrace.cli.background import BackgroundCall, stopped_by_signals
from headrace.cli.job_file import Job, read_job
from headrace.cli.jobs import build_engine, check_inputs, check_outputs, exchange_folders, load_script
from headrace.cli.live import REFRESH_S, say, summarise, watching_run
from headrace.model.errors import UsageError
from headrace.model.schema import Catalog
from headrace.model.time import parse_duration
from headrace.storage.directory import list_states
from headrace.storage.store import open_store
from headrace.wire.exchange import DirectoryExchange

if TYPE_CHECKING:
    from headrace.engine.run import Run
    from headrace.spark.engine import Engine
    from headrace.spark.executors import IdleJob
    from headrace.wire.http_server import Server

QUIET = {"spark.log.level": "FATAL"}
"""Spark would print the stack trace of every task that fails; what went wrong is printed once, at the end."""


@click.command()
@click.argument("job", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Process what is there up to the watermark, then stop.")
@click.option("--bounded", is_flag=True, help="Process what is there, close every window, then stop.")
@click.option("--take-over", is_flag=True, help="Take the state from an engine that hangs and can't be stopped.")
@click.option(
    "--reset-results",
    is_flag=True,
    help="Move results aside that belong to another state, or to later steps than this state has.",
)
def run(job: Path, once: bool, bounded: bool, take_over: bool, reset_results: bool) -> None:
    """Run a JOB (a TOML file; headrace init writes one) on Spark until it is stopped.

    Started again, it resumes where it stopped. Ctrl-C finishes the step that runs, then stops; a second Ctrl-C stops
    at once, and the next start does that step again.

    \b
    Try it:
      headrace init /tmp/first
      headrace data trades --rows 100000 --out /tmp/first/data
      headrace run /tmp/first/job.toml --bounded
    """
    if once and bounded:
        raise click.UsageError("--once keeps open windows open, --bounded closes them: choose one")
    mode = "once" if once else "bounded" if bounded else None
    spec = read_job(job)
    script = load_script(spec, warn=lambda text: click.echo(text, err=True))
    check_inputs(spec, script.catalog)
    with in_words_of_the_command_line():
        check_outputs(spec, script.catalog, take_over=take_over)
    console = Console(stderr=True, highlight=False)
    from headrace.spark.executors import IdleJob, is_local
    from headrace.spark.session import session

    settings = {**QUIET, **spec.spark}
    with bind_server(spec, script.catalog) as server, in_our_words(spec.state), session(spec.master, settings) as spark:
        running = open_run(build_engine(spec, script, spark, take_over=take_over, reset_results=reset_results))
        report_ended(running)
        idle = None
        if not is_local(spec.master):
            idle = IdleJob(spark)
            say(console, f"the state is split into {running.pipelines[0].stepper.changes.reducers} parts (reducers)")
        with receiving(server, console):
            drive(running, spec, mode, console, idle)
    folders = [folder for pipeline in running.pipelines for folder in pipeline.delivery.folders]
    summarise(console, running.progress(), folders)
    report_rejected(console, spec.state)


@contextmanager
def bind_server(job: Job, catalog: Catalog) -> Iterator[Server | None]:
    """Bind the HTTP end for the edges of the job, if it has one. Nobody is answered yet."""
    if job.listen is None:
        yield None
        return
    from headrace.wire.http_server import Inlet, serve

    exchanges = exchange_folders(job, catalog).items()
    inlets = [Inlet(stream.name, DirectoryExchange(path), stream.skew_us) for stream, path in exchanges]
    server = serve(inlets, job.listen, job.tokens, hosts=job.hosts)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def receiving(server: Server | None, console: Console) -> Iterator[None]:
    """Answer edges meanwhile."""
    if server is None:
        yield
        return
    server.start()
    say(console, f"edges send to http://{server.address}")
    try:
        yield
    finally:
        server.stop()


def report_rejected(console: Console, state: str) -> None:
    job = open_store(state)
    for name in list_states(job):
        names = (entry.name.rpartition("/")[2] for entry in job.list(f"{name}/rejected"))
        if any(not name.startswith(".") for name in names):
            say(console, f"rows that were not counted: {state}/{name}/rejected/*.parquet")


def open_run(engine: Engine) -> Run:
    """Return a run that has not begun."""
    with in_words_of_the_command_line():
        return engine.run()


@contextmanager
def in_our_words(state: str) -> Iterator[None]:
    """Raise what goes wrong in Spark, its start and its end among it, as an error of ours."""
    try:
        yield
    except Exception as problem:  # noqa: BLE001 - every error leaves it again, as itself or translated
        from headrace.spark.errors import translate_error

        known = translate_error(problem, state)
        raise known from (None if known is not problem else problem.__cause__)


@contextmanager
def in_words_of_the_command_line() -> Iterator[None]:
    """Say what to do when the state is in use."""
    try:
        yield
    except UsageError as problem:
        if problem.code != "state-in-use":
            raise
        hint = "stop it; if it hangs and can't be stopped, --take-over takes the state from it"
        raise UsageError(problem.code, problem.message, hint=hint) from None


def report_ended(running: Run) -> None:
    for pipeline in running.pipelines:
        commit = pipeline.stepper.commit
        if commit is not None and commit.ended:
            click.echo(
                f"the input of {pipeline.stream.name} ended in an earlier --bounded run: rows that come now are late",
                err=True,
            )


def drive(running: Run, job: Job, mode: str | None, console: Console, idle: IdleJob | None = None) -> None:
    """Start the run in a thread of its own, show how it goes, and wait for its end or for a signal."""
    if mode is None:
        running.start(parse_duration(job.trigger))
        wait: Callable[[float], bool] = running.join
    else:
        wait = BackgroundCall(running.bounded if mode == "bounded" else running.once).wait
    # Results that are printed meanwhile would be overwritten in place.
    in_place = console.is_terminal and not any(sink["kind"] == "console" for sink in job.sinks)
    with stopped_by_signals(running.stopping, console, "stopping after this step") as signalled:
        try:
            with watching_run(console, in_place, is_first=not running.progress()) as show:
                while not wait(REFRESH_S):
                    show(running.progress())
                    if idle is not None and signalled.is_set():
                        idle.cancel_if_idle()
        except Exception as problem:
            from headrace.spark.errors import is_lost

            if mode is None:
                running.close()
            is_cancelled = idle is not None and idle.is_cancelled
            if not (signalled.is_set() and (is_lost(problem) or is_cancelled)):
                raise
            why = "no executor runs the step" if is_cancelled else "Spark was stopped too"
            say(console, f"stopped at once, since {why}: the step is done again at the next start")
    running.close()
