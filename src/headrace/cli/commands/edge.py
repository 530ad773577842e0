"""`headrace edge`: the agent beside the data, until it is stopped or all input is read."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import rich_click as click
from rich.console import Console

from headrace.cli.agent_file import build_agent, read_agent_file
from headrace.cli.background import run_watched
from headrace.cli.live import count_noun, describe_watermark, say
from headrace.edge.agent_progress import AgentProgress, Mode
from headrace.model.errors import DataError, printable

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
    worker = build_agent(read_agent_file(agent), mode, lambda text: say(console, printable(text)))
    rate = Rate()

    def line() -> str:
        progress = worker.progress()
        return line_of(progress, rate(progress.rows.read))

    run_watched(worker.run, worker.stopping, console, "stopping after a last frame", line, quiet=quiet)
    progress = worker.progress()
    if not quiet:
        say(console, line_of(progress, None))
    check_sent(progress.frames_waiting, progress.problem)


def check_sent(waiting: int, problem: str | None) -> None:
    """Raise an error if frames wait in a spool, which is where they are after `problem`."""
    if waiting:
        message = f"{count_noun(waiting, 'frame', 'frames')} could not be sent, and wait in the spool"
        raise DataError("unsent", message, detail=problem, hint="the next start sends them")


# What is shown


class Rate:
    """The rate of rows in the last second or so."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.since_s, self.rows, self.rows_per_s = clock(), 0, 0.0

    def __call__(self, rows: int) -> float:
        now_s = self.clock()
        if now_s - self.since_s >= 1:
            self.rows_per_s = (rows - self.rows) / (now_s - self.since_s)
            self.since_s, self.rows = now_s, rows
        return self.rows_per_s


def line_of(progress: AgentProgress, rows_per_s: float | None) -> str:
    rows = progress.rows
    facts = [f"{rows.read:,} rows"]
    if rows_per_s is not None:
        facts.append(f"{rows_per_s:,.0f} rows/s")
    facts += [f"{getattr(rows, name)} {name}" for name in ("late", "dropped", "future", "bad") if getattr(rows, name)]
    if rows.bad and progress.refused:
        facts[-1] += f" (most: {printable(max(progress.refused, key=lambda refusal: refusal.rows).reason)})"
    if progress.datagrams_dropped:
        facts.append(f"{count_noun(progress.datagrams_dropped, 'datagram', 'datagrams')} dropped by the system")
    facts.append(f"{count_noun(progress.frames_sent, 'frame', 'frames')} sent ({short_size(progress.bytes_sent)})")
    facts.append(f"{progress.frames_waiting:,} spooled ({short_size(progress.bytes_waiting)})")
    facts.append(describe_orders(progress))
    if progress.watermark_us is not None:
        facts.append(describe_watermark(progress.watermark_us))
    if progress.problem is not None:
        facts.append(printable(progress.problem))
    return ", ".join(facts)


def describe_orders(progress: AgentProgress) -> str:
    if not progress.has_orders:
        return "no orders yet"
    return "rows as they are" if progress.plan is None else f"plan {progress.plan[:SHORT_PLAN]}"


def short_size(count: int) -> str:
    amount, unit = float(count), 0
    while amount >= 1_000 and unit < len(UNITS) - 1:
        amount, unit = amount / 1_024, unit + 1
    return f"{amount:,.1f} {UNITS[unit]}" if unit else f"{count} bytes"
