"""Long work of a command: in a thread of its own, until it is done or a signal asks it to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.text import Text

from headrace.cli.live import REFRESH_S, say, watching

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class BackgroundCall:
    """A call in a thread of its own; what it raises is raised where it is waited for."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.problem: BaseException | None = None
        self.thread = threading.Thread(target=self.run, name="headrace", daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            self.call()
        except BaseException as problem:  # noqa: BLE001 - handed to the thread that waits
            self.problem = problem

    def wait(self, timeout_s: float) -> bool:
        """Wait, and return whether it is done."""
        self.thread.join(timeout_s)
        if self.problem is not None:
            raise self.problem
        return not self.thread.is_alive()


@contextmanager
def stopped_by_signals(stopping: threading.Event, console: Console, message: str) -> Iterator[threading.Event]:
    """Set `stopping` and the yielded event and print `message` at the first signal; interrupt at the second.

    PySpark's own handler, which would cancel the step, is in place once the session has started: ours must come after
    it.
    """
    signalled = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield signalled
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        if signalled.is_set():
            raise KeyboardInterrupt
        signalled.set()
        stopping.set()
        say(console, f"{message}; once more stops at once")

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield signalled
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_watched(
    call: Callable[[], None],
    stopping: threading.Event,
    console: Console,
    message: str,
    line: Callable[[], str],
    *,
    quiet: bool,
) -> None:
    """Run a call until it ends, or a signal asks it to stop; show its line meanwhile."""
    work = BackgroundCall(call)
    in_place = console.is_terminal and not quiet
    with stopped_by_signals(stopping, console, message), watching(console, in_place) as show:
        while not work.wait(REFRESH_S):
            if not quiet:
                text = line()
                show([text], Text(text))
