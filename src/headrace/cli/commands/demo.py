"""`headrace demo`: the first two minutes with Headrace."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from headrace.cli.live import say, watching_run
from headrace.cli.progress import progress_bar
from headrace.cli.tables import print_rows
from headrace.datasets import KINDS, generate, workload
from headrace.inputs.text_file import read_text
from headrace.model.query import Query
from headrace.model.types import Value
from headrace.sql import format_query, parse_script

if TYPE_CHECKING:
    from headrace.engine.run import Run
    from headrace.spark.engine import Engine

FILES = 16
SAMPLE = 4
"""Number of queries that are timed by themselves."""
BARS = "▁▂▃▄▅▆▇█"

QUERIES = """\
-- CQL: total value of large trades in sliding windows
CREATE QUERY large_trades AS
  SELECT count(*) AS trades, sum(T.Price * T.Vol) AS value
  FROM Trades T [RANGE '12 s' SLIDE '5 s'] WHERE T.Vol > 5000;

-- Spark's window(): the busiest symbols, window by window
CREATE QUERY busiest AS
  SELECT Symbol, count(*) AS trades, avg(Price) AS price FROM Trades
  GROUP BY window(Time, '30 seconds'), Symbol ORDER BY trades DESC LIMIT 3;

-- HOP, and a join: trades far from yesterday's close, by index membership
CREATE QUERY movers AS
  SELECT X.R1000 AS large_cap, count(*) AS trades, max(abs(T.Price - C.CP) / C.CP) AS furthest
  FROM TABLE(HOP(TABLE Trades, DESCRIPTOR(Time), INTERVAL '20' SECOND, INTERVAL '40' SECOND)) T
  JOIN Close C ON T.Symbol = C.Symbol JOIN Index X ON T.Symbol = X.Symbol
  WHERE abs(T.Price - C.CP) / C.CP > 0.01 GROUP BY X.R1000;

-- Gigascope: trades per 10 seconds
CREATE QUERY rate AS
  SELECT tb, count(*) AS trades FROM Trades GROUP BY Time/10 AS tb;
"""
LATER = "SELECT max(Price) AS price, count(*) AS trades FROM Trades [RANGE '20 s']"


@click.command()
@click.option("--rows", type=click.IntRange(1_000), default=1_000_000, show_default=True, help="How many trades.")
@click.option("--queries", type=click.IntRange(8), default=256, show_default=True, help="How many queries.")
def demo(rows: int, queries: int) -> None:
    """Answer 256 queries over a stream of trades on local Spark, while queries come and go.

    Files of trades arrive one after the other. Four queries, each in another dialect, are shown; the others are the
    paper's workload in which no two queries have the same window or predicate. At the end all are answered once more
    from the same files, together and, some of them, one by one with Spark's own aggregation.
    """
    from headrace.spark.session import session

    console = Console(highlight=False)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        span_s = KINDS["trades"].span_us(rows) / 1e6
        with progress_bar("generating trades") as report:
            summary = generate(
                "trades", rows, 7, root / "trades", file_span_s=max(1.0, span_s / FILES), progress=report
            )
        named = all_queries(root / "trades", queries)
        console.print(f"One stream: {summary.rows:,} trades. {len(named)} queries, four of them in four dialects:\n")
        console.print(Syntax(QUERIES, "sql", background_color="default", word_wrap=True))
        with session(starting=lambda: console.print("Starting Spark: about ten seconds.")) as spark:
            engine = engine_over(spark, root, root / "arriving", named)
            answer(engine, root, named, console)
            compare(spark, root, named, console)
    console.print("\nNext: headrace init DIR makes a job of your own, headrace explain shows a plan.")


def all_queries(folder: Path, count: int) -> dict[str, Query]:
    declared = read_text(str(folder / "schema.sql"))
    named = [*parse_script(declared + QUERIES).queries, *parse_script(workload("otf-low", count - 4, 7)).queries]
    return {query.name: query.query for query in named}


def engine_over(spark: Any, root: Path, source: Path, queries: dict[str, Query]) -> Engine:
    from headrace.spark.engine import Engine

    engine = Engine(spark, root / f"state of {source.name}")
    engine.declare(read_text(str(root / "trades" / "schema.sql")))
    source.mkdir(exist_ok=True)
    engine.stream("Trades", source)
    for table in ("Close", "Index"):
        engine.table(table, root / "trades" / table)
    for name, query in queries.items():
        engine.add(name, format_query(query))
    return engine


# The stream


def answer(engine: Engine, root: Path, queries: dict[str, Query], console: Console) -> None:
    """Let files arrive, one per step; two queries leave and one joins on the way; then the stream ends."""
    files = sorted((root / "trades" / "Trades").glob("*.parquet"))
    leaving = list(queries)[-2:]
    with engine.start(trigger="100 ms") as run, watching_run(console, console.is_terminal) as show:
        for number, file in enumerate(files):
            (root / "arriving" / file.name).hardlink_to(file)
            wait(run, file, show)
            if number == len(files) // 3:
                for name in leaving:
                    reply = run.drop(name)
                    say(console, f"dropped {name}, from step {reply['step']} on")
                reply = run.add("highest", LATER)
                say(console, f"added highest, from step {reply['step']} on")
    engine.queries.clear()  # those that are there stay; what was dropped must not come again
    with engine.bounded() as run:
        (progress,) = run.progress()
        for name in ("large_trades", "busiest", "movers", "highest"):
            query = progress_query(run, name)
            print_rows(name, query.result_columns(), rows_of(run, name, query), 5)
            console.print()
        console.print(Text("rate: trades per 10 seconds", style="bold"))
        console.print(sparkline(run.results("rate")["trades"].to_pylist()))
        sharing = (
            f", {progress.sharing:.0f} times less work than apart by the plan's estimate" if progress.sharing else ""
        )
        console.print(
            f"\n{progress.windows:,} windows of {len(progress.queries)} queries from one shared plan{sharing}."
        )


def wait(run: Run, file: Path, show: Any) -> None:
    """Wait until the file has been read."""
    name = f"/{file.name}"
    (pipeline,) = run.pipelines
    while not any(path.endswith(name) for path in list(pipeline.stepper.seen.looks)):
        if run.join(0.02):
            return
        show(run.progress())


def progress_query(run: Run, name: str) -> Query:
    (pipeline,) = run.pipelines
    return pipeline.stepper.registry.queries[name].query


def rows_of(run: Run, name: str, query: Query) -> list[tuple[Value, ...]]:
    """Return the rows as plain values."""
    from headrace.inputs.conversion import typed_results
    from headrace.model.arrow import plain_values

    table = typed_results(run.results(name), query.result_columns())
    columns = [plain_values(table[column.name], column.type) for column in query.result_columns()]
    return list(zip(*columns, strict=True))


# Together and apart


def compare(spark: Any, root: Path, queries: dict[str, Query], console: Console) -> None:
    """Time all queries in one bounded run, and some of them one by one as Spark aggregations, over the same files."""
    from headrace.spark.single_query import files_in, read_frames, write_answer

    engine = engine_over(spark, root, root / "trades" / "Trades", queries)
    begun = time.perf_counter()
    with engine.bounded():
        together_s = time.perf_counter() - begun
    files = files_in(root / "trades")
    frames = read_frames(spark, files)
    sampled = list(queries.values())[4 :: max(1, (len(queries) - 4) // SAMPLE)][:SAMPLE]
    taken = []
    for number, query in enumerate([sampled[0], *sampled]):
        begun = time.perf_counter()
        write_answer(query, frames, files.stream.event_time, root / f"alone {number}")
        taken.append(time.perf_counter() - begun)
    taken = taken[1:]  # the first one warms up
    one_s = sum(taken) / len(taken)
    console.print(
        f"From the same files: all {len(queries)} queries together {together_s:.1f} s, planning included; one alone "
        f"with Spark {one_s:.1f} s, so {len(queries)} one by one {one_s * len(queries):,.0f} s "
        f"(extrapolated from {len(taken)}): {one_s * len(queries) / together_s:,.0f} times as long."
    )


def sparkline(values: list[Value]) -> str:
    numbers = [value for value in values if isinstance(value, int | float)]
    highest = max(numbers, default=1) or 1
    bars = "".join(BARS[min(len(BARS) - 1, int(number / highest * len(BARS)))] for number in numbers)
    return f"{bars}  (highest {highest:,})"
