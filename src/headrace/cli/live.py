"""A run as it goes, and what it did: in place, or a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.engine.progress import Progress
from headrace.model.errors import printable
from headrace.model.time import MICROSECOND, UNITS_US, format_timestamp, to_microseconds
from headrace.storage.records import ResultFolder

REFRESH_S = 0.25
LINE_S = 5.0
MOST_QUERIES = 20
WIDEST = 1_000
LEFT_OUT = "empty windows left out"
BEGINNING = "reading the first files and making the plan"

Show = Callable[[Sequence[Progress]], None]


def facts(progress: Progress) -> list[list[str]]:
    """What there is to say, in three groups."""
    totals = progress.totals
    position = "all input read" if progress.ended else "no watermark yet"
    if progress.watermark is not None:
        position = f"watermark {format_timestamp(to_microseconds(progress.watermark.replace(microsecond=0)))}"
    begun = [f"step {progress.step:,}", count_noun(len(progress.queries), "query", "queries")]
    if progress.sharing is not None:
        begun.append(f"sharing {progress.sharing:.1f}x")
    input_side = [f"{totals.rows:,} rows", f"{progress.rows_per_s:,.0f} rows/s", position]
    if progress.lag is not None:
        input_side.append(f"lag {short_duration(progress.lag // MICROSECOND)}")
    if progress.edges:
        input_side.append(count_noun(len(progress.edges), "edge", "edges"))
    if progress.parked:
        input_side.append(f"parked {count_noun(len(progress.parked), 'frame', 'frames')}")
    return [
        begun,
        input_side,
        [
            count_noun(progress.windows, "window", "windows"),
            *(f"{name} {getattr(totals, name):,}" for name in ("late", "dropped", "future", "bad")),
            *([f"bad files {totals.quarantined:,}"] if totals.quarantined else []),
            *([f"changed files {totals.changed:,}"] if totals.changed else []),
        ],
    ]


def count_noun(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def short_duration(duration_us: int) -> str:
    """About how long, in one unit: '1.5 s', '20 min', '36 h', '7,992 days'."""
    if abs(duration_us) >= 2 * UNITS_US["day"]:
        return f"{duration_us / UNITS_US['day']:,.0f} days"
    size_us = next((size for name, size in UNITS_US.items() if name != "day" and abs(duration_us) >= size), 1)
    name = next(name for name, size in UNITS_US.items() if size == size_us)
    amount = duration_us / size_us
    return f"{amount:,.1f} {name}" if abs(amount) < 10 else f"{amount:,.0f} {name}"


def line_of(progress: Progress) -> str:
    return f"{progress.stream}: {', '.join(fact for group in facts(progress) for fact in group)}"


def block_of(all_progress: Iterable[Progress]) -> Text:
    shown = Text()
    for progress in all_progress:
        begun, *others = facts(progress)
        shown.append(f"{printable(progress.stream)}  ", "bold")
        shown.append("   ".join(begun) + "\n")
        for group in others:
            shown.append(f"  {'   '.join(group)}\n")
    shown.rstrip()
    return shown


@contextmanager
def watching(
    console: Console, in_place: bool, clock: Callable[[], float] = time.monotonic, *, is_first: bool = True
) -> Iterator[Show]:
    """Gives a function to call now and then with the progress of each stream. A first run has a plan to make."""
    if in_place:
        with Live(Text(BEGINNING if is_first else ""), console=console, auto_refresh=False, transient=True) as live:
            live.refresh()
            yield lambda found: live.update(block_of(found), refresh=True) if found else None
    else:
        if is_first:
            say(console, BEGINNING)
        yield Lines(console, clock)


class Lines:
    """A line per stream every few seconds, when a step came since the last."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self.console = console
        self.clock = clock
        self.shown_s = clock()
        self.steps: dict[str, int] = {}

    def __call__(self, found: Sequence[Progress]) -> None:
        if self.clock() - self.shown_s < LINE_S:
            return
        self.shown_s = self.clock()
        for progress in found:
            if self.steps.get(progress.stream) != progress.step:
                self.steps[progress.stream] = progress.step
                say(self.console, line_of(progress))


def say(console: Console, text: str) -> None:
    """Print one line, whatever the width; nothing in it is markup or steers the terminal."""
    console.print(Text(printable(text)), soft_wrap=True)


def summarise(console: Console, all_progress: Sequence[Progress], folders: Iterable[ResultFolder]) -> None:
    """Per query what came of it, and where the results are."""
    for progress in all_progress:
        say(console, line_of(progress))
        if progress.queries:
            print_wide(console, query_table(progress))
        if len(progress.queries) > MOST_QUERIES:
            left = len(progress.queries) - MOST_QUERIES
            say(console, f"... and {left:,} more queries: headrace queries list JOB shows them")
    for folder in dict.fromkeys(folders):
        say(console, f"results: {Path(folder.path) / '<query>' / f'step-*.{folder.format}'}")


def query_table(progress: Progress) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("query", no_wrap=True)
    shown = list(progress.queries.items())[:MOST_QUERIES]
    has_gaps = any(state.left_out for _, state in shown)
    for name in ("windows", "rows", "row errors", *([LEFT_OUT] if has_gaps else [])):
        table.add_column(name, justify="right")
    for name, state in shown:
        counts = state.windows, state.rows, state.errors, *([state.left_out] if has_gaps else [])
        table.add_row(Text(printable(name)), *(f"{count:,}" for count in counts))
    return table


def print_wide(console: Console, table: Table) -> None:
    """As wide as the table is where nobody's terminal would cut it."""
    if not console.is_terminal:
        widest = console.options.update(width=WIDEST)
        console.width = max(console.width, console.measure(table, options=widest).maximum)
    console.print(table)
