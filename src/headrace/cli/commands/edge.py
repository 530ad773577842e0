"""`headrace edge`: the agent beside the data, until it is stopped or all input is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import rich_click as click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from headrace.cli.agent_file import build_agent, read_agent_file
from headrace.cli.background import Work, stopped_by_signals
from headrace.cli.live import LINE_S, REFRESH_S, count_noun, say
from headrace.edge.agent import Agent
from headrace.edge.agent_progress import Mode, Progress
from headrace.model.errors import DataError, printable
from headrace.model.time import format_timestamp

SHORT_PLAN = 8
UNITS = ("bytes", "KB", "MB", "GB", "TB")


@click.command()
@click.argument("agent", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Read what is there, then stop; the next start resumes behind it.")
@click.option("--bounded", is_flag=True, help="Read what is there, say that the stream has ended, then stop.")
@click.option("--quiet", is_flag=True, help="Show no progress; problems are still reported.")
def edge(agent: Path, once: bool, bounded: bool, quiet: bool) -> None:
    """Run the AGENT of an edge (a TOML file): read rows, aggregate them, send frames up.

    It asks what is above for orders, and reads nothing before there are any. Frames wait on the disk until they are
    taken above. Started again, it resumes where it stopped: no row of a file is sent twice, none is lost. Ctrl-C cuts
    a last frame, then stops; a second Ctrl-C stops at once.

    \b
    A small agent:
      edge = "north"
      schema = "schema.sql"          # CREATE STREAM ..., as in a job
      stream = "Trades"
      state = "state"                # frames that wait, and how far the source was read
      [source]
      kind = "files"                 # or udp, tcp, stdin
      path = "data/Trades"
      [ship]
      to = "../root/frames/Trades"   # or https://relay:8760

    The page docs/edge.md has all its keys.
    """
    if once and bounded:
        raise click.UsageError("--once keeps the stream open, --bounded ends it: choose one")
    mode = Mode.ONCE if once else Mode.BOUNDED if bounded else Mode.LIVE
    console = Console(stderr=True, highlight=False)
    found = build_agent(read_agent_file(agent), mode, lambda text: say(console, printable(text)))
    drive(found, console, quiet)
    progress = found.progress()
    if not quiet:
        say(console, line_of(progress, None))
    if progress.frames_waiting:
        problem = f"{count_noun(progress.frames_waiting, 'frame', 'frames')} could not be sent, and wait in the spool"
        raise DataError("unsent", problem, detail=progress.problem, hint="the next start sends them")


def drive(agent: Agent, console: Console, quiet: bool) -> None:
    """Run it in a thread of its own, show how it goes, and wait for its end or for a signal."""
    work = Work(agent.run)
    rate = Rate()
    stopped = stopped_by_signals(agent.stopping, console, "stopping after a last frame")
    with stopped, watching(console, quiet) as show:
        while not work.wait(REFRESH_S):
            progress = agent.progress()
            show(line_of(progress, rate(progress.rows.read)))


# What is shown


class Rate:
    """Of rows in the last second or so."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.since_s, self.rows, self.found = clock(), 0, 0.0

    def __call__(self, rows: int) -> float:
        now_s = self.clock()
        if now_s - self.since_s >= 1:
            self.found = (rows - self.rows) / (now_s - self.since_s)
            self.since_s, self.rows = now_s, rows
        return self.found


@contextmanager
def watching(console: Console, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Gives a function to call now and then with a line: in place, or printed every few seconds."""
    if quiet:
        yield lambda line: None
    elif console.is_terminal:
        with Live(Text(""), console=console, auto_refresh=False, transient=True) as live:
            yield lambda line: live.update(Text(line), refresh=True)
    else:
        yield Lines(console)


class Lines:
    """A line every few seconds, if it says something new."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self.clock = clock
        self.shown_s, self.shown = clock(), ""

    def __call__(self, line: str) -> None:
        if self.clock() - self.shown_s >= LINE_S and line != self.shown:
            self.shown_s, self.shown = self.clock(), line
            say(self.console, line)


def line_of(progress: Progress, rows_per_s: float | None) -> str:
    rows = progress.rows
    facts = [f"{rows.read:,} rows"]
    if rows_per_s is not None:
        facts.append(f"{rows_per_s:,.0f} rows/s")
    facts += [f"{getattr(rows, name)} {name}" for name in ("late", "dropped", "future", "bad") if getattr(rows, name)]
    if rows.bad and progress.refused:
        facts[-1] += f" (most: {printable(max(progress.refused, key=lambda each: each.rows).reason)})"
    if progress.datagrams_dropped:
        facts.append(f"{count_noun(progress.datagrams_dropped, 'datagram', 'datagrams')} dropped by the system")
    facts.append(f"{count_noun(progress.frames_sent, 'frame', 'frames')} sent ({short_size(progress.bytes_sent)})")
    facts.append(f"{progress.frames_waiting:,} spooled ({short_size(progress.bytes_waiting)})")
    facts.append(describe_orders(progress))
    if progress.watermark_us is not None:
        facts.append(f"watermark {format_timestamp(progress.watermark_us - progress.watermark_us % 1_000_000)}")
    if progress.problem is not None:
        facts.append(printable(progress.problem))
    return ", ".join(facts)


def describe_orders(progress: Progress) -> str:
    if not progress.has_orders:
        return "no orders yet"
    return "rows as they are" if progress.plan is None else f"plan {progress.plan[:SHORT_PLAN]}"


def short_size(count: int) -> str:
    amount, unit = float(count), 0
    while amount >= 1_000 and unit < len(UNITS) - 1:
        amount, unit = amount / 1_024, unit + 1
    return f"{amount:,.1f} {UNITS[unit]}" if unit else f"{count} bytes"
