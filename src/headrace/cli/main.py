"""The `headrace` command: a table of sub-commands, loaded when called, and the place where every error ends."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import rich_click as click

from headrace import __version__
from headrace.kernel.memory import keep_memory

EXIT_OK = 0
EXIT_MISTAKE = 1
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130


class CommandEntry(NamedTuple):
    """Where a sub-command lives (`module:attribute`, below `headrace.cli.commands`) and what it does, in one line."""

    target: str
    summary: str


COMMANDS: Mapping[str, CommandEntry] = {
    "parse": CommandEntry("parse:parse", "Check queries and show how they are understood."),
    "data": CommandEntry("data:data", "Generate the papers' streams."),
    "workload": CommandEntry("workload:workload", "Generate the papers' sets of queries."),
    "eval": CommandEntry("eval:evaluate", "Answer queries over files, without Spark."),
    "explain": CommandEntry("explain:explain", "Show the shared plan of queries, and what it costs."),
    "init": CommandEntry("init:init", "Write the skeleton of a job."),
    "run": CommandEntry("run:run", "Run a job on Spark."),
    "edge": CommandEntry("edge:edge", "Run the agent of an edge: partial aggregation beside the data."),
    "relay": CommandEntry("relay:relay", "Combine the frames of many edges, and send one for all."),
    "queries": CommandEntry("queries:queries", "List, add, drop and replace the queries of a job."),
    "steps": CommandEntry("steps:steps", "Show the steps of a job, or abandon input that is gone."),
    "rescale": CommandEntry("state:rescale", "Split the state of a job into another number of parts."),
    "backup": CommandEntry("state:backup", "Copy the state of a job, also while it runs."),
    "restore": CommandEntry("state:restore", "Put a copy of the state back."),
    "tables": CommandEntry("queries:tables", "Let a job read its static tables again."),
    "calibrate": CommandEntry("calibrate:calibrate_command", "Measure the planner's cost constants."),
    "demo": CommandEntry("demo:demo", "See many queries answered over one stream."),
    "doctor": CommandEntry("doctor:doctor", "Check this machine for what Headrace needs."),
}

TASKS: Mapping[str, Sequence[str]] = {
    "Try": ("eval", "explain", "parse", "demo", "doctor"),
    "Run a job": ("init", "run"),
    "Operate a job": ("queries", "steps", "tables", "rescale", "backup", "restore"),
    "Edges": ("edge", "relay"),
    "Measure": ("data", "workload", "calibrate"),
}
"""The commands by what people want to do, as the help lists them."""

EXTRA_OF_PACKAGE: Mapping[str, str] = {
    "pyspark": "spark",
    "pandas": "spark",
    "matplotlib": "plot",
    "polars": "bench",
    "duckdb": "bench",
    "obstore": "s3",
    "starlette": "service",
    "uvicorn": "service",
    "h11": "service",
}


def load_command(name: str) -> click.Command:
    """Import the sub-command called `name`."""
    module, _, attribute = f"headrace.cli.commands.{COMMANDS[name].target}".partition(":")
    try:
        command = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise click.ClickException(f"'{name}' is not part of Headrace {__version__}.") from None
    if not isinstance(command, click.Command):
        raise TypeError(f"{COMMANDS[name].target} is not a click command")
    return command


class LazyGroup(click.RichGroup):
    """A group that lists stand-ins and imports a sub-command when it is called."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load_command(name), rest


@click.group(
    cls=LazyGroup,
    commands={name: click.Command(name, help=entry.summary) for name, entry in COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"]},
    panels=[click.RichCommandPanel(task, commands=list(names)) for task, names in TASKS.items()],
)
@click.version_option(__version__, prog_name="headrace")
def cli() -> None:
    """Hundreds of continuous aggregate queries over one stream, answered by one shared plan."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    return run_command(cli, "headrace", arguments)


def run_command(command: click.Command, name: str, arguments: Sequence[str] | None = None) -> int:
    """Run a command under this name and return its exit status; errors are printed as a user reads them."""
    keep_memory()
    try:
        status = command.main(arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Python flushes once more on its way out: let it flush into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_MISTAKE
    except Exception as error:  # noqa: BLE001 - the outermost loop
        return _report(error)
    return status if isinstance(status, int) else EXIT_OK


def _report(error: Exception) -> int:
    """Print what happened: a mistake in full, a missing extra by its name, a bug in one sentence."""
    # Imported only here, so that `--help` does not pay for the model.
    from headrace.model.errors import HeadraceError, printable_lines

    if isinstance(error, HeadraceError):
        click.echo(str(error), err=True)
        return EXIT_MISTAKE
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package in EXTRA_OF_PACKAGE:
        extra = EXTRA_OF_PACKAGE[package]
        click.echo(f"This needs {package}, which is not installed: pip install 'headrace[{extra}]'.", err=True)
        return EXIT_MISTAKE
    if os.environ.get("HEADRACE_DEBUG") == "1":
        traceback.print_exception(error)
    click.echo(
        f"Headrace stopped on an unexpected {type(error).__name__} ({printable_lines(str(error))}): "
        "please report it, with what HEADRACE_DEBUG=1 shows.",
        err=True,
    )
    return EXIT_INTERNAL
