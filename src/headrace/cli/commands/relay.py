"""`headrace relay`: frames of many edges as one, until it is stopped or all that is there was sent."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import rich_click as click
from rich.console import Console

from headrace.cli.background import run_watched
from headrace.cli.commands.edge import check_sent, short_size
from headrace.cli.live import count_noun, describe_watermark, say
from headrace.cli.relay_file import RelayFile, read_relay_file
from headrace.edge.agent import clock_us
from headrace.edge.file_source import Report
from headrace.edge.orders_poll import OrdersPoll
from headrace.edge.relay import Relay
from headrace.edge.relay_plans import PlanKeeping, Plans
from headrace.edge.sender import Sender
from headrace.edge.spool import Spool
from headrace.model.errors import printable
from headrace.model.schema import Stream
from headrace.wire.exchange import DirectoryExchange

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
        process = RelayProcess(file, stack, lambda text: say(console, printable(text)))
        if process.address is not None and not quiet:
            say(console, f"listening at {process.address}")
        call = process.once if once else process.run
        run_watched(call, process.stopping, console, "stopping when all is sent", process.describe, quiet=quiet)
    if not quiet:
        say(console, process.describe())
    process.check_sent()


class RelayProcess:
    """The relays of all streams of a file, and the HTTP end before them. The stack ends what was begun."""

    def __init__(self, file: RelayFile, stack: ExitStack, report: Report) -> None:
        self.file = file
        self.stopping = threading.Event()
        self.relays = [StreamRelay(file, stream, stack, report) for stream in file.streams]
        self.address: str | None = None
        if file.listen is not None:
            from headrace.wire.http_server import Inlet, serve

            inlets = [Inlet(relay.stream.name, relay.relay.inbox, relay.stream.skew_us) for relay in self.relays]
            server = serve(inlets, file.listen, file.tokens, hosts=file.hosts)
            stack.callback(server.stop)
            server.start()
            self.address = server.address

    def run(self) -> None:
        while not self.stopping.wait(self.file.every_s):
            for relay in self.relays:
                relay.step()

    def once(self) -> None:
        """Take what is there now, under the orders that are there now."""
        for relay in self.relays:
            relay.following.has_polled.wait(PATIENCE_S)
            relay.step()

    def describe(self) -> str:
        """Return how far the relays are."""
        return "; ".join(map(StreamRelay.describe, self.relays))

    def check_sent(self) -> None:
        problems = [relay.sender.problem for relay in self.relays if relay.sender.problem is not None]
        check_sent(sum(len(relay.spool.waiting) for relay in self.relays), "; ".join(problems) or None)


class StreamRelay:
    """The relay of one stream, who sends its frames and who asks for orders."""

    def __init__(self, file: RelayFile, stream: Stream, stack: ExitStack, report: Report) -> None:
        self.stream = stream
        state = file.state / stream.name
        inbox, plans = DirectoryExchange(file.inbox / stream.name), Plans(state / "plans")

        destination = file.destination_of(stream)
        sending_to, orders = destination.connect(stream), PlanKeeping(destination.connect(stream), plans)
        self.spool = Spool(state / "spool", file.relay, stream.name)
        stack.callback(self.spool.close)
        idle_us = stream.idle_us if file.idle_us is None else file.idle_us
        self.relay = Relay(file.relay, stream, file.edges, inbox, self.spool, plans, clock=clock_us, idle_us=idle_us)
        self.sender = Sender(self.spool, sending_to, report=report)
        stack.callback(self.stop_sending)
        self.following = OrdersPoll(orders, inbox.root, stream.name, file.poll_s)
        stack.callback(self.following.stop)

    def step(self) -> None:
        self.sender.check()
        self.relay.step()

    def stop_sending(self) -> None:
        self.sender.stop(PATIENCE_S)
        self.spool.settle(None, at_once=True)

    def describe(self) -> str:
        """Return how far it is."""
        relay, sender = self.relay, self.sender
        facts = [f"{sum(state.frames for state in relay.ledger.values()):,} frames taken"]
        facts.append(f"{count_noun(sender.frames, 'frame', 'frames')} sent ({short_size(sender.bytes)})")
        facts += [f"{count:,} {what}" for what, count in self.count_held().items() if count]
        if relay.watermark_us is not None:
            facts.append(describe_watermark(relay.watermark_us))
        problem = sender.problem or self.following.problem
        return f"{self.stream.name}: {', '.join([*facts, *([printable(problem)] if problem else [])])}"

    def count_held(self) -> dict[str, int]:
        intake = self.relay.intake
        return {"spooled": len(self.spool.waiting), "parked": len(intake.parked), "refused": intake.refused}
