"""`headrace init`: the skeleton of a job, which runs as it is and teaches on the way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import rich_click as click

from headrace.cli.output_file import writing
from headrace.model.errors import UsageError

JOB = """\
# A job of Headrace: `headrace run job.toml` runs it, `headrace explain job.toml` shows its shared plan.
# Paths are relative to this file.

schema = "schema.sql"      # streams and static tables: what columns they have
queries = "queries.sql"    # what is asked of them; several files: ["a.sql", "b.sql"]
# functions = "functions.py" # Python functions that the queries call
state = "state"            # a directory that the engine owns: it resumes from there when it is started again
trigger = "1 s"            # how often to look for new files
# master = "local[*]"      # the Spark to run on: all cores of this machine

# Where the rows are: files in a directory. New files are read as they appear; write them elsewhere and move them in.
[streams.Trades]
path = "data/Trades"
format = "parquet"         # or json (one object per line), csv

[tables.Close]
path = "data/Close"

[tables.Index]
path = "data/Index"

# Where the results go, one folder per query. Any number of sinks; without one: Parquet files in the state directory.
[[sinks]]
kind = "parquet"
path = "results"

# [[sinks]]
# kind = "console"
# rows = 5

[engine]
on_bad_file = "stop"       # or "quarantine": leave out what can't be read, count it and continue
# retain = "10 min"        # how long to keep slices for queries to come; default: the longest window
# reducers = 2             # fixed by the first start; default: the number of cores

[quotas]
queries = 1000

# [spark]
# "spark.driver.memory" = "2g"
"""

SCHEMA = """\
-- Rows may come 5 seconds behind the highest Time seen; a window is answered when none can come any more.
CREATE STREAM Trades (Time TIMESTAMP, Symbol STRING, Price DOUBLE, Vol BIGINT) EVENT TIME Time LATENESS '5 s';

-- Static tables, joined to the stream by key.
CREATE TABLE Close (Symbol STRING, CP DOUBLE);
CREATE TABLE Index (Symbol STRING, R3000 BOOLEAN, R2000 BOOLEAN, R1000 BOOLEAN);
"""

QUERIES = """\
-- Every 5 seconds: the value of large trades in the last 12 seconds.
CREATE QUERY large_trades AS
  SELECT count(*) AS trades, sum(T.Price * T.Vol) AS value
  FROM Trades T [RANGE '12 s' SLIDE '5 s'] WHERE T.Vol > 5000;

-- Every minute: the three busiest symbols.
CREATE QUERY busiest AS
  SELECT Symbol, count(*) AS trades, avg(Price) AS price FROM Trades
  GROUP BY window(Time, '1 minute'), Symbol ORDER BY trades DESC LIMIT 3;

-- Every 20 seconds: trades far from yesterday's close, of large companies and of others.
CREATE QUERY movers AS
  SELECT X.R1000 AS large_cap, count(*) AS trades, max(abs(T.Price - C.CP) / C.CP) AS furthest
  FROM Trades T [RANGE '40 s' SLIDE '20 s'] JOIN Close C ON T.Symbol = C.Symbol JOIN Index X ON T.Symbol = X.Symbol
  WHERE abs(T.Price - C.CP) / C.CP > 0.01 GROUP BY X.R1000;
"""

README = """\
# A job of Headrace

    headrace data trades --rows 100000 --out data    # something to read
    headrace explain job.toml                        # how the queries share their work
    headrace run job.toml --bounded                  # answer everything that is there, then stop

`job.toml` says where rows are and where results go, `schema.sql` what the rows are, `queries.sql` what is asked.

    headrace run job.toml                            # run until Ctrl-C; new files are read as they appear
    headrace queries list job.toml
    headrace queries add job.toml volume "SELECT sum(Vol) AS volume FROM Trades [RANGE '1 minute']"

Results are in `results/<query>/`, the state is in `state/`. To start over, stop the job and delete both: after
`--bounded` the input has ended, and rows that come later are late.
"""

FILES: Mapping[str, str] = {"job.toml": JOB, "schema.sql": SCHEMA, "queries.sql": QUERIES, "README.md": README}


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
def init(folder: Path) -> None:
    """Write the skeleton of a job into DIR: job.toml, schema.sql, queries.sql and a README.

    Files that are there are not overwritten.

    \b
    Try it:
      headrace init /tmp/first
      headrace data trades --rows 100000 --out /tmp/first/data
      headrace run /tmp/first/job.toml --bounded
    """
    present = [name for name in FILES if (folder / name).exists()]
    if present:
        raise UsageError("file", f"{folder} has {', '.join(present)} already", hint="choose another folder")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in FILES.items():
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(content)
    click.echo(f"{', '.join(FILES)} are in {folder}. Next:")
    click.echo(f"  headrace data trades --rows 100000 --out {folder / 'data'}")
    click.echo(f"  headrace run {folder / 'job.toml'} --bounded")
