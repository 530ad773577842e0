"""`headrace demo`: the first minute with Headrace."""

from __future__ import annotations

import tempfile
from pathlib import Path

import rich_click as click
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from headrace.datasets import generate
from headrace.model.schema import Catalog
from headrace.model.types import Value
from headrace.service.eval import Answer, run
from headrace.service.progress import progress_bar
from headrace.service.scripts import read_text
from headrace.service.tables import print_rows
from headrace.sql import parse_script

ROWS = 30_000
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

-- Gigascope: trades per 2 seconds
CREATE QUERY rate AS
  SELECT tb, count(*) AS trades FROM Trades GROUP BY Time/2 AS tb;
"""


@click.command()
def demo() -> None:
    """Generate a small stream of stock trades and answer four queries over it, each in another dialect.

    One shared plan answers all four, in this process, without Spark.
    """
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "trades"
        with progress_bar("generating trades") as report:
            summary = generate("trades", ROWS, 7, folder, progress=report)
        script = parse_script(read_text(str(folder / "schema.sql")) + QUERIES, Catalog())
        console.print(f"One stream: {summary.rows:,} trades of an ordinary noon. Four queries, in four dialects:\n")
        console.print(Syntax(QUERIES, "sql", background_color="default", word_wrap=True))
        answers = {
            answer.named.name: answer
            for stream in script.catalog.streams
            for answer in run(script, stream, list(script.queries), folder, "kernel")
        }
    for name in ("large_trades", "busiest", "movers"):
        print_rows(name, answers[name].named.query.result_columns(), answers[name].rows, 6)
        console.print()
    console.print(Text("rate: trades per 2 seconds", style="bold"))
    console.print(sparkline(column(answers["rate"], "trades")))
    windows = sum(answer.windows for answer in answers.values())
    console.print(
        f"\n{windows} windows, answered by one shared plan over the same rows: headrace explain shows such a plan."
    )
    console.print("Next: headrace data --help, headrace workload --help, headrace eval --help.")


def column(answer: Answer, name: str) -> list[Value]:
    position = [output.name for output in answer.named.query.outputs].index(name)
    return [row[position] for row in answer.rows]


def sparkline(values: list[Value]) -> str:
    numbers = [value for value in values if isinstance(value, int | float)]
    highest = max(numbers, default=1) or 1
    bars = "".join(BARS[min(len(BARS) - 1, int(number / highest * len(BARS)))] for number in numbers)
    return f"{bars}  (highest {highest:,})"
