"""A small edge over files: its input, its orders, its agent, and what the upper side makes of its frames."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.edge.agent import Agent
from headrace.edge.agent_progress import Mode, Pace
from headrace.edge.file_source import FileSource, Report
from headrace.edge.spool import Spool
from headrace.engine.answers import close_all, plan_for
from headrace.expressions.static_tables import Data
from headrace.inputs import Source
from headrace.kernel.close.retained_partials import Retained
from headrace.kernel.level1.reader import ReadResult
from headrace.model.arrow import plain_values
from headrace.model.query import Query
from headrace.model.windows import Interval
from headrace.planner.plan import Plan
from headrace.reference import Interpreter
from headrace.sql import parse_query
from headrace.storage.disk import TEMPORARY
from headrace.wire.exchange import DirectoryExchange
from headrace.wire.frame_checks import check_partials, check_rows
from headrace.wire.frames import Frame, from_bytes
from headrace.wire.ledger import EdgeState, FrameVerdict, decide, take_frame
from headrace.wire.orders import Orders
from tests.engine.files import CATALOG, SCHEMA, batches

STREAM = CATALOG.streams[0]
EDGE = "north"
QUERIES = {
    "counts": "SELECT count(*) AS n, sum(v) AS v FROM r [RANGE '4 s' SLIDE '2 s']",
    "groups": "SELECT k, max(v) AS v, count(*) AS n FROM r [RANGE '6 s' SLIDE '3 s'] WHERE v > 2 GROUP BY k",
}
OTHERS = {"later": "SELECT k, min(v) AS v, count(*) AS n FROM r [RANGE '5 s'] GROUP BY k"}
QUICK = Pace(every_s=0.01, heartbeat_s=60, poll_s=0.02, patience_s=60)

Windows = dict[str, list[tuple[Any, ...]]]


def queries_of(texts: Mapping[str, str]) -> dict[str, Query]:
    return {name: parse_query(sql, CATALOG) for name, sql in texts.items()}


def orders_for(texts: Mapping[str, str]) -> Orders:
    queries = queries_of(texts)
    rows = pa.Table.from_pylist([row for rows in batches(20) for row in rows], schema=SCHEMA)
    return Orders("r", plan_for(Data(CATALOG, STREAM, rows, {}), queries), queries)


def write_files(root: Path, count: int, first: int = 0) -> None:
    """Three row groups each, which the agent reads one by one."""
    folder = root / "input"
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in list(enumerate(batches(count)))[first:]:
        path = folder / f".part-{number:04}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path, row_group_size=4)
        os.utime(path, ns=(number * 10**9, number * 10**9))
        path.rename(folder / path.name.removeprefix("."))


def upper(root: Path) -> DirectoryExchange:
    return DirectoryExchange(root / "up")


def make_agent(
    root: Path, mode: Mode = Mode.ONCE, pace: Pace = QUICK, report: Report = print, *, folder: str = "input"
) -> Agent:
    spool = Spool(root / "state", EDGE, "r")
    known = spool.known
    source = FileSource(Source(str(root / folder)), STREAM, known.files, known.reading, report, unit_bytes=1)
    return Agent(CATALOG, STREAM, spool, source, lambda: upper(root), mode=mode, pace=pace, report=report)


@contextmanager
def barred(root: Path) -> Iterator[None]:
    """The way up is barred by a file where the directory should be."""
    (root / "up").rename(root / "away")
    (root / "up").touch()
    yield
    (root / "up").unlink()
    (root / "away").rename(root / "up")


class Running:
    """An agent in a thread, stopped at the end of the block."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.problem: BaseException | None = None
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        try:
            self.agent.run()
        except BaseException as problem:  # noqa: BLE001 - looked at by the test
            self.problem = problem

    def __enter__(self) -> Running:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.agent.stopping.set()
        self.thread.join()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        until_s = time.monotonic() + 60
        while not condition():
            assert self.problem is None, self.problem
            assert time.monotonic() < until_s, self.agent.progress()
            time.sleep(0.005)


# The upper side


def received(root: Path) -> list[Frame]:
    """All frames in the order in which they are taken; each of them is, once. What a kill left half written is none."""
    ledger: dict[str, EdgeState] = {}
    found = []
    for path in upper(root).waiting():
        if path.name.startswith(TEMPORARY):
            continue
        data = path.read_bytes()
        frame = from_bytes(data)
        verdict, reason = decide(ledger, frame.header)
        assert verdict is FrameVerdict.TAKE, f"{path.name}: {reason}"
        ledger = take_frame(ledger, frame.header, len(data))
        found.append(frame)
    return found


def rows_in(frames: Iterable[Frame]) -> list[dict[str, Any]]:
    tables = [table for frame in frames if frame.header.plan is None for table in check_rows(frame, STREAM)]
    return [row for table in tables for row in table.to_pylist()]


def sent_rows(count: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.Table.from_pylist(
        [row for rows in batches(count) for row in rows], schema=SCHEMA
    ).to_pylist()
    return rows


def in_any_order(rows: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


def answers(frames: Iterable[Frame], plans: Iterable[Plan | None], texts: Mapping[str, str]) -> Windows:
    """What the root would answer in the end, from partials of any of the plans."""
    by_id = {Orders("r", plan).plan_id: plan for plan in plans}
    run = ReadResult(Retained((), STREAM.zone))
    for frame in frames:
        header, plan = frame.header, by_id[frame.header.plan]
        if plan is None or header.lowest_us is None or header.highest_us is None:
            assert not frame.tables
            continue
        places = {plan.nodes[place].node: place for place in plan.shipped}
        run.retained.add(plan, {}, Interval(header.lowest_us, header.highest_us + 1))
        for part in check_partials(frame, "r", plan):
            run.retained.add(plan, {places[part.node]: part})
    queries = queries_of(texts)
    closed = close_all(run, Data(CATALOG, STREAM, SCHEMA.empty_table(), {}), queries, 1_000)
    return {
        name: sorted(
            zip(
                *(plain_values(closed[name].table[each.name], each.type) for each in query.result_columns()),
                strict=True,
            )
        )
        for name, query in queries.items()
    }


def expected(count: int, texts: Mapping[str, str]) -> Windows:
    """From the reference, if no row is late."""
    interpreter = Interpreter(STREAM)
    for name, query in queries_of(texts).items():
        interpreter.register(name, query)
    steps = [interpreter.batch([row for rows in batches(count) for row in rows]), interpreter.end()]
    found: Windows = {name: [] for name in texts}
    for step in steps:
        for result in step.results:
            found[result.query] += result.rows
    return {name: sorted(rows) for name, rows in found.items()}
