"""A job for the fault suites: its files, its rows, its queries, and what DuckDB says that the results must be.

Rows are never late, whatever the steps are cut like, and sums of them are exact: results are compared to the last bit.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.storage.directory import Directory, open_directory
from headrace.storage.store import Store, is_remote, open_store

PROJECT = Path(__file__).parents[2]
STREAM = "r"
SECOND_US = 1_000_000
BEGIN_US = 1_700_000_000 * SECOND_US
MAX_BACK_S = 3
LATENESS_S = 5
"""More than a row may come behind the highest time seen."""
ROWS_PER_FILE = 24
SCHEMA = pa.schema([("t", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64()), ("x", pa.float64())])
DECLARATION = (
    f"CREATE STREAM {STREAM} (t TIMESTAMP, k STRING, v BIGINT, x DOUBLE) EVENT TIME t LATENESS '{LATENESS_S} s';"
)
JOB = """\
schema = "schema.sql"
queries = "queries.sql"
state = {state!r}
trigger = "{trigger}"
master = "{master}"

[streams.{stream}]
path = {input!r}

[[sinks]]
kind = "parquet"
path = {results!r}

[engine]
reducers = 2
step_bytes = {step_bytes}

[spark]
"spark.driver.memory" = "512m"
{settings}"""
RESULT_FILE = re.compile(r"step-(?P<step>\d+)(?:-\d+)?(?P<former>-former-\d+)?\.parquet$")
Row = tuple[Any, ...]
Windows = dict[tuple[int, int], list[Row]]


# Queries


@dataclass(frozen=True, slots=True)
class Asked:
    """A query in both languages. Every query counts its rows, so that an empty window can be told from others."""

    range_s: int
    slide_s: int
    multiple: int = 1
    """Only rows whose v is no multiple of it; 1: all rows."""
    is_grouped: bool = False
    limit: int | None = None

    AGGREGATES = "count(*) AS n, sum(v) AS s, min(x) AS lo, max(v) AS hi, sum(x) AS total, avg(v) AS mean"

    @property
    def condition(self) -> str:
        return f"v % {self.multiple} <> 0" if self.multiple > 1 else "TRUE"

    def sql(self) -> str:
        group, items = (" GROUP BY k", "k, ") if self.is_grouped else ("", "")
        order = f" ORDER BY n DESC, k LIMIT {self.limit}" if self.limit is not None else ""
        window = f"[RANGE '{self.range_s} s' SLIDE '{self.slide_s} s']"
        where = f" WHERE {self.condition}" if self.multiple > 1 else ""
        return f"SELECT {items}{self.AGGREGATES} FROM {STREAM} {window}{where}{group}{order}"

    def duckdb(self) -> str:
        """Every row is in the windows that end behind it, at most a range behind."""
        range_us, slide_us = self.range_s * SECOND_US, self.slide_s * SECOND_US
        group = "k" if self.is_grouped else "NULL"
        rank = "row_number() OVER (PARTITION BY e ORDER BY n DESC, g)" if self.limit is not None else "0"
        return f"""
            WITH taken AS (
                SELECT unnest(range((t // {slide_us} + 1) * {slide_us}, t + {range_us} + 1, {slide_us})) AS e, *
                FROM {STREAM} WHERE {self.condition}
            ),
            answered AS (SELECT e, {group} AS g, {self.AGGREGATES} FROM taken GROUP BY ALL),
            ranked AS (SELECT *, {rank} AS place FROM answered)
            SELECT e - {range_us}, e, g, n, s, lo, hi, total, mean FROM ranked WHERE place <= {self.limit or 0}
        """


FIRST = {
    "counts": Asked(4, 2),
    "groups": Asked(6, 3, 3, is_grouped=True),
    "best": Asked(5, 5, is_grouped=True, limit=2),
}


def draw_query(source: random.Random) -> Asked:
    slide_s = source.randint(1, 5)
    is_grouped = source.random() < 0.6
    limit = source.randint(1, 3) if is_grouped and source.random() < 0.4 else None
    return Asked(slide_s + source.randint(0, 8), slide_s, source.randint(1, 4), is_grouped, limit)


# A job in a folder


class Job:
    """A folder with a job, its input, its state and its results, looked at from outside."""

    def __init__(
        self, root: Path, *, seed: int = 1, state: str = "state", results: str = "results", input: str = "input"
    ) -> None:
        """Paths are below the root, unless they are absolute. The state may be the URL of an object store."""
        self.root = root
        self.seed = seed
        self.file = root / "job.toml"
        self.state = state if is_remote(state) else str(root / state)
        self.results = root / results
        self.input = root / input

    def write(
        self,
        trigger: str = "50 ms",
        master: str = "local[2,4]",
        step_bytes: int = 1 << 30,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`local[2,4]`: a task may fail three times, or the kill of a worker would end the run."""
        self.input.mkdir(parents=True, exist_ok=True)
        (self.root / "schema.sql").write_text(f"{DECLARATION}\n")
        queries = "".join(f"CREATE QUERY {name} AS {query.sql()};\n" for name, query in FIRST.items())
        (self.root / "queries.sql").write_text(queries)
        lines = "".join(f'"{name}" = "{value}"\n' for name, value in (settings or {}).items())
        places = {"state": self.state, "settings": lines, "results": str(self.results), "input": str(self.input)}
        options: dict[str, Any] = {"stream": STREAM, "trigger": trigger, "master": master, "step_bytes": step_bytes}
        self.file.write_text(JOB.format(**places, **options))

    # Input

    def feed(self, count: int = 1) -> None:
        """Write the next files: a second of event time each, some of it up to three seconds before the others."""
        first = self.files
        for number in range(first, first + count):
            hidden, shown = self.input / f".part-{number:06}.parquet", self.input / f"part-{number:06}.parquet"
            pq.write_table(pa.Table.from_pylist(self.rows(number), schema=SCHEMA), hidden)
            os.utime(hidden, ns=(number * 10**9, number * 10**9))
            hidden.rename(shown)

    @property
    def files(self) -> int:
        return sum(1 for name in os.listdir(self.input) if name.startswith("part-"))

    def rows(self, number: int) -> list[dict[str, Any]]:
        source = random.Random(f"{self.seed}-{number}")
        begin_us = BEGIN_US + number * SECOND_US
        return [
            {
                "t": begin_us + source.randrange(-MAX_BACK_S * SECOND_US, SECOND_US),
                "k": source.choice("abcdef"),
                "v": source.randrange(1_000),
                "x": source.randrange(-800, 800) / 8,
            }
            for _ in range(ROWS_PER_FILE)
        ]

    # State

    @property
    def store(self) -> Store:
        return open_store(f"{self.state}/{STREAM}")

    @property
    def directory(self) -> Directory:
        return open_directory(f"{self.state}/{STREAM}")

    @property
    def step(self) -> int:
        """The last step that was committed."""
        names = (entry.name.rpartition("/")[2] for entry in self.store.list("commits"))
        return max((int(name[:9]) for name in names if name[:9].isdigit()), default=0)

    @property
    def is_stateful(self) -> bool:
        """Whether the last commit keeps slices for windows that are open."""
        return self.step > 0 and self.directory.commit(self.step).slice_objects > 0

    def closed_us(self, step: int) -> int | None:
        """Up to where windows were answered by a step, if its record is still kept."""
        return self.directory.commit(step).closed_us if step in self.directory.steps() else None


# Comparison


@dataclass(slots=True)
class Stay:
    """A query from one step on, up to another. `first_us` is the end of its first complete window, as announced;
    behind it so many windows are left out, all of them up to a time if that was announced too.
    """

    name: str
    asked: Asked
    from_step: int = 0
    first_us: int | None = None
    left_out: int = 0
    left_out_until_us: int | None = None
    until_step: int | None = None
    closed_us: int | None = None
    """Up to where windows were answered before it left."""
    is_replaced: bool = False

    def has(self, step: int, is_former: bool) -> bool:
        if self.until_step is None or step < self.until_step:
            return step >= self.from_step and not (is_former and step == self.from_step)
        return step == self.until_step and (is_former or not self.is_replaced)

    def document(self) -> dict[str, Any]:
        return asdict(self)


def stay_from(document: dict[str, Any]) -> Stay:
    return Stay(**{**document, "asked": Asked(**document["asked"])})


FIXED = tuple(Stay(name, asked) for name, asked in FIRST.items())


@dataclass(slots=True)
class Comparison:
    rows: int = 0
    windows: int = 0
    differences: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def compare(job: Job, stays: list[Stay] | tuple[Stay, ...] = FIXED) -> Comparison:
    """Compare all results of a job that has ended with DuckDB's over the same input."""
    found = Comparison()
    with duckdb.connect(config={"threads": 2, "memory_limit": "500MB"}) as database:
        database.execute("SET TimeZone = 'UTC'")
        database.execute(
            f"CREATE TABLE {STREAM} AS SELECT epoch_us(t) AS t, k, v, x FROM read_parquet(?)",
            [str(job.input / "part-*.parquet")],
        )
        (found.rows,) = database.execute(f"SELECT count(*) FROM {STREAM}").fetchone() or (0,)
        for stay in stays:
            theirs: Windows = {}
            for row in database.execute(stay.asked.duckdb()).fetchall():
                theirs.setdefault(row[:2], []).append(row)
            compare_windows(stay, read_windows(database, job.results / stay.name, stay, found), theirs, found)
    return found


def read_windows(database: duckdb.DuckDBPyConnection, folder: Path, stay: Stay, found: Comparison) -> Windows:
    """The rows of a query; a window that two steps answered is a difference."""
    files = {}
    for path in folder.glob("*.parquet"):
        match = RESULT_FILE.match(path.name)
        assert match is not None, path
        if stay.has(int(match["step"]), match["former"] is not None):
            files[str(path)] = int(match["step"])
    if not files:
        return {}
    group = "k" if stay.asked.is_grouped else "NULL"
    rows = database.execute(
        f"SELECT epoch_us(window_start), epoch_us(window_end), {group}, n, s, lo, hi, total, mean, filename "
        "FROM read_parquet(?, filename = true)",
        [list(files)],
    ).fetchall()
    windows: Windows = {}
    steps: dict[tuple[int, int], set[int]] = {}
    for *row, file in rows:
        windows.setdefault((row[0], row[1]), []).append(tuple(row))
        steps.setdefault((row[0], row[1]), set()).add(files[file])
    for window, seen in steps.items():
        if len(seen) > 1:
            found.differences.append(f"{stay.name}: window {window} was answered by steps {sorted(seen)}")
    return windows


def compare_windows(stay: Stay, ours: Windows, theirs: Windows, found: Comparison) -> None:
    for window, rows in ours.items():
        is_empty = window not in theirs and len(rows) == 1 and rows[0][3] == 0
        found.windows += 1
        if not is_empty and sorted(rows) != sorted(theirs.get(window, [])):
            said = f"{sorted(rows)}, DuckDB says {sorted(theirs.get(window, []))}"
            found.differences.append(f"{stay.name} from step {stay.from_step}: window {window} is {said}")
    last_us = None
    if stay.until_step is not None:
        last_us = max([end for _, end in ours] + [stay.closed_us or 0], default=0)
    first_us = stay.first_us if stay.first_us is not None else 0
    left_out = stay.left_out
    for start, end in sorted(theirs.keys() - ours.keys()):
        if end < first_us or (last_us is not None and end > last_us):
            continue
        if left_out and (stay.left_out_until_us is None or end <= stay.left_out_until_us):
            left_out -= 1
            continue
        announced = "" if stay.first_us is None else f", announced from {stay.first_us}"
        found.missing.append(f"{stay.name} from step {stay.from_step}{announced}: ({start}, {end})")
