"""`headrace relay`: frames of many edges as one, until it is stopped or all that is there was sent."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import rich_click as click
from rich.console import Console

from headrace.cli.background import Work, stopped_by_signals
from headrace.cli.commands.edge import short_size, watching
from headrace.cli.live import REFRESH_S, count_noun, say
from headrace.cli.relay_file import RelayFile, read_relay_file
from headrace.edge.agent import clock_us
from headrace.edge.file_source import Report
from headrace.edge.orders_poll import Following
from headrace.edge.relay import PlanKeeping, Plans, Relay
from headrace.edge.sender import Sender, exchange_at
from headrace.edge.spool import Spool
from headrace.model.errors import DataError, printable
from headrace.model.schema import Stream
from headrace.model.time import format_timestamp
from headrace.wire.exchange import DirectoryExchange, Exchange

PATIENCE_S = 10.0
"""How long frames that can't be sent, or orders that don't come, keep a relay from stopping."""


@click.command()
@click.argument("relay", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Combine and send what is there, then stop.")
@click.option("--quiet", is_flag=True, help="Show no progress; problems are still reported.")
def relay(relay: Path, once: bool, quiet: bool) -> None:
    """Run a RELAY (a TOML file): combine the frames of many edges, and send one frame up for all.

    Edges send to it over HTTP, or write into its inbox; orders from above are passed on to them. Started again, it goes
    on where it stopped: no frame is counted twice, none is lost. Ctrl-C finishes what is in work, then stops.

    \b
    A small relay:
      relay = "west"
      schema = "schema.sql"          # CREATE STREAM ..., as in a job
      streams = "Trades"
      edges = ["north", "south"]     # these hold the watermark back
      listen = "127.0.0.1:8760"      # elsewhere with a token_file only
      inbox = "inbox"
      state = "state"
      [ship]
      to = "../root/frames"          # or https://root:8760

    The page docs/relay.md has all its keys.
    """
    console = Console(stderr=True, highlight=False)
    file = read_relay_file(relay)
    with ExitStack() as stack:
        running = Running(file, stack, lambda text: say(console, printable(text)))
        if running.address is not None and not quiet:
            say(console, f"listening at {running.address}")
        work = Work(running.once if once else running.run)
        stopped = stopped_by_signals(running.stopping, console, "stopping when all is sent")
        with stopped, watching(console, quiet) as show:
            while not work.wait(REFRESH_S):
                show(running.line())
    if not quiet:
        say(console, running.line())
    running.check_sent()


class Running:
    """The relays of all streams of a file, and the HTTP end before them. The stack ends what was begun."""

    def __init__(self, file: RelayFile, stack: ExitStack, report: Report) -> None:
        self.file = file
        self.stopping = threading.Event()
        self.lines = [Line(file, stream, stack, report) for stream in file.streams]
        self.address: str | None = None
        if file.listen is not None:
            from headrace.wire.http_server import Inlet, serve

            inlets = [Inlet(line.stream.name, line.relay.inbox, line.stream.skew_us) for line in self.lines]
            server = serve(inlets, file.listen, file.tokens, hosts=file.hosts)
            stack.callback(server.stop)
            server.start()
            self.address = server.address

    def run(self) -> None:
        while not self.stopping.wait(self.file.every_s):
            for line in self.lines:
                line.step()

    def once(self) -> None:
        """What is there now, under the orders that are there now."""
        for line in self.lines:
            line.following.has_polled.wait(PATIENCE_S)
            line.step()

    def line(self) -> str:
        return "; ".join(map(Line.describe, self.lines))

    def check_sent(self) -> None:
        unsent = sum(len(line.spool.waiting) for line in self.lines)
        if unsent:
            problem = f"{count_noun(unsent, 'frame', 'frames')} could not be sent, and wait in the spool"
            details = [line.sender.problem for line in self.lines if line.sender.problem is not None]
            raise DataError("unsent", problem, detail="; ".join(details) or None, hint="the next start sends them")


class Line:
    """The relay of one stream, who sends its frames and who asks for orders."""

    def __init__(self, file: RelayFile, stream: Stream, stack: ExitStack, report: Report) -> None:
        self.stream = stream
        state = file.state / stream.name
        inbox, plans = DirectoryExchange(file.inbox / stream.name), Plans(state / "plans")

        def connect() -> Exchange:
            return exchange_at(file.place_above(stream), stream.name, file.ship_token, allow_plain=file.allow_plain)

        sending_to, asked = connect(), PlanKeeping(connect(), plans)
        self.spool = Spool(state / "spool", file.relay, stream.name)
        stack.callback(self.spool.close)
        idle_us = stream.idle_us if file.idle_us is None else file.idle_us
        self.relay = Relay(file.relay, stream, file.edges, inbox, self.spool, plans, clock=clock_us, idle_us=idle_us)
        self.sender = Sender(self.spool, sending_to, report=report)
        stack.callback(self.stop_sending)
        self.following = Following(asked, inbox.root, stream.name, file.poll_s)
        stack.callback(self.following.stop)

    def step(self) -> None:
        self.sender.check()
        self.relay.step()

    def stop_sending(self) -> None:
        self.sender.stop(PATIENCE_S)
        self.spool.settle(None, at_once=True)

    def describe(self) -> str:
        """How far it is."""
        relay, sender = self.relay, self.sender
        facts = [f"{sum(state.frames for state in relay.ledger.values()):,} frames taken"]
        facts.append(f"{count_noun(sender.frames, 'frame', 'frames')} sent ({short_size(sender.bytes)})")
        facts += [f"{count:,} {what}" for what, count in self.count_held().items() if count]
        if relay.watermark_us is not None:
            facts.append(f"watermark {format_timestamp(relay.watermark_us - relay.watermark_us % 1_000_000)}")
        problem = sender.problem or self.following.problem
        return f"{self.stream.name}: {', '.join([*facts, *([printable(problem)] if problem else [])])}"

    def count_held(self) -> dict[str, int]:
        return {"spooled": len(self.spool.waiting), "parked": len(self.relay.parked), "refused": self.relay.refused}
