"""A run as it goes, and what it did: in place, or a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli.tables import CellColumn, build_table, print_wide
from headrace.engine.progress import Progress
from headrace.engine.sinks.sinks import ResultFolder
from headrace.model.errors import printable
from headrace.model.time import MICROSECOND, SECOND_US, UNITS_US, format_timestamp, to_microseconds

REFRESH_S = 0.25
LINE_S = 5.0
MAX_QUERIES = 20
LEFT_OUT = "empty windows left out"
BEGINNING = "reading the first files and making the plan"


def facts(progress: Progress) -> list[list[str]]:
    """Return what there is to say, in three groups."""
    totals = progress.totals
    position = "all input read" if progress.ended else "no watermark yet"
    if progress.watermark is not None:
        position = describe_watermark(to_microseconds(progress.watermark))
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


def describe_watermark(watermark_us: int) -> str:
    return f"watermark {format_timestamp(watermark_us - watermark_us % SECOND_US)}"


def count_noun(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def short_duration(duration_us: int) -> str:
    """Return a duration in one unit: '1.5 s', '20 min', '36 h', '7,992 days'."""
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


class NewLines:
    """Prints lines every few seconds, if they say something new."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self.clock = clock
        self.shown_s = clock()
        self.shown: Sequence[str] = ()

    def __call__(self, lines: Sequence[str]) -> None:
        new = [line for line in lines if line not in self.shown]
        if new and self.clock() - self.shown_s >= LINE_S:
            self.shown_s, self.shown = self.clock(), lines
            for line in new:
                say(self.console, line)


@contextmanager
def watching(console: Console, in_place: bool, first: str = "") -> Iterator[Callable[[Sequence[str], Text], None]]:
    """Give a function to call now and then with lines, and with the text that shows the same in place."""
    if in_place:
        with Live(Text(first), console=console, auto_refresh=False, transient=True) as live:
            live.refresh()
            yield lambda lines, block: live.update(block, refresh=True) if lines else None
    else:
        if first:
            say(console, first)
        new_lines = NewLines(console)
        yield lambda lines, block: new_lines(lines)


@contextmanager
def watching_run(
    console: Console, in_place: bool, *, is_first: bool = True
) -> Iterator[Callable[[Sequence[Progress]], None]]:
    """Give a function to call now and then with the progress of each stream. A first run has a plan to make."""
    with watching(console, in_place, BEGINNING if is_first else "") as show:
        yield lambda all_progress: show([line_of(progress) for progress in all_progress], block_of(all_progress))


def say(console: Console, text: str) -> None:
    """Print one line, whatever the width; nothing in it is markup or steers the terminal."""
    console.print(Text(printable(text)), soft_wrap=True)


def summarise(console: Console, all_progress: Sequence[Progress], folders: Iterable[ResultFolder]) -> None:
    """Print what came of each query, and where the results are."""
    for progress in all_progress:
        say(console, line_of(progress))
        if progress.queries:
            print_wide(console, query_table(progress))
        if len(progress.queries) > MAX_QUERIES:
            left = len(progress.queries) - MAX_QUERIES
            say(console, f"... and {left:,} more queries: headrace queries list JOB shows them")
    for folder in dict.fromkeys(folders):
        say(console, f"results: {Path(folder.path) / '<query>' / f'step-*.{folder.format}'}")


def query_table(progress: Progress) -> Table:
    shown = dict(list(progress.queries.items())[:MAX_QUERIES])
    counts = {"windows": "windows", "rows": "rows", "row errors": "errors"}
    if any(query.left_out for query in shown.values()):
        counts[LEFT_OUT] = "left_out"
    columns = [CellColumn("query", list(shown))]
    for name, field in counts.items():
        cells = [f"{getattr(query, field):,}" for query in shown.values()]
        columns.append(CellColumn(name, cells, {"justify": "right"}))
    return build_table(columns)
