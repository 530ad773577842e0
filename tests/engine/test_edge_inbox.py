"""A root that takes frames: random queries over random edges, whose frames come late, twice and in any order."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.edge.agent import Agent
from headrace.edge.agent_progress import Mode
from headrace.edge.file_source import FileSource
from headrace.edge.spool import Spool
from headrace.edge.work import EdgeWork, work_for
from headrace.engine.edge_inbox import Inbox, holding_back, plans_to_keep
from headrace.engine.registry import ask
from headrace.engine.sinks.sinks import ResultFolder
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import NOTHING, Input, Stepper
from headrace.expressions.evaluation import Evaluation
from headrace.inputs import Source
from headrace.model.arrow import arrow_type
from headrace.model.query import Query
from headrace.model.schema import Catalog
from headrace.sql import format_query, parse_query
from headrace.storage.directory import prepare
from headrace.storage.records import Commit
from headrace.wire.exchange import DirectoryExchange
from headrace.wire.frames import Frame, Header, from_bytes, to_bytes
from headrace.wire.frames import RowCounts as Counts
from headrace.wire.ledger import EdgeState
from headrace.wire.orders import Orders
from tests.engine.file_stepper import FileStepper
from tests.engine.files import CATALOG, SCHEMA
from tests.engine.stories import MAX_EMPTY, Story, Windows, read_results, run_reference, stories, without_sync
from tests.engine.test_steps import compare
from tests.oracle.tables import STREAM, Row

SETTINGS = settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)
EDGES = ("east", "north", "west")


@dataclass
class Edge:
    """What an agent does, step by step: rows in the order of their times, by the orders that it polled last."""

    name: str
    catalog: Catalog
    rows: list[Row]
    incarnation: int = 1
    sequence: int = 0
    position: int = 0
    read: int = 0
    highest_us: int | None = None
    work: EdgeWork | None = None
    plan: str | None = None
    frames: list[Frame] = field(default_factory=list)

    def poll(self, orders: Orders | None) -> None:
        if orders is not None:
            if self.work is not None:
                self.cut()
            self.work, self.plan = work_for(orders, self.catalog, {}, 1 << 16), orders.plan_id

    def take(self, count: int) -> None:
        rows = self.rows[self.read : self.read + count]
        if self.work is not None and rows:
            columns = [(column.name, arrow_type(column.type)) for column in self.catalog.streams[0].columns]
            self.work.feed(pa.Table.from_pylist(rows, schema=pa.schema(columns)))
            self.read += len(rows)

    def cut(self, *, ended: bool = False) -> None:
        rows = self.rows[self.position : self.read]
        times_us = [row["t"] for row in rows]
        self.highest_us = max([*times_us, *([] if self.highest_us is None else [self.highest_us])], default=None)
        errors = dict(self.work.errors) if self.work else {}
        tables = self.work.cut() if self.work else ()
        self.sequence += 1
        header = Header(
            self.name,
            self.incarnation,
            self.sequence,
            self.catalog.streams[0].name,
            self.plan,
            begins={"rows": self.position} if self.position else {},
            position={"rows": self.read} if self.read else {},
            watermark_us=None if self.highest_us is None else self.highest_us - self.catalog.streams[0].lateness_us,
            lowest_us=min(times_us, default=None),
            highest_us=max(times_us, default=None),
            rows=Counts(read=len(rows)),
            errors=errors,
            ended=ended,
        )
        self.position = self.read
        self.frames.append(Frame(header, tables))

    def restart(self) -> None:
        """What it read since its last frame is read again."""
        self.incarnation, self.sequence, self.read = self.incarnation + 1, 0, self.position
        self.work, self.plan = None, None


@dataclass
class Root:
    """Steps of a stream whose rows are all at edges."""

    path: Path
    catalog: Catalog
    names: Iterable[str] = EDGES
    reducers: int = 2
    wants_rows: bool = False

    def __post_init__(self) -> None:
        self.exchange = DirectoryExchange(self.path / "exchange")
        self.stepper = self.started()

    def started(self) -> Stepper:
        stream = self.catalog.streams[0]
        self.directory = prepare(self.path / "state", STREAM)
        folders = (ResultFolder(str(self.path / "results"), "parquet"),)
        setting = StreamSetting(
            uuid4().hex,
            str(self.path / "state"),
            self.catalog,
            stream.name,
            None,
            max_empty=MAX_EMPTY,
            edges=tuple(self.names),
        )
        inbox = Inbox(self.directory, stream, self.names, self.exchange, wants_rows=self.wants_rows)
        return FileStepper(setting, InProcess(2), folders, reducers=self.reducers, inbox=inbox)

    def restart(self) -> None:
        self.stepper.close()
        self.stepper = self.started()

    def deliver(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self.exchange.put(frame.header, to_bytes(frame))

    def step(self, *, ended: bool = False) -> Commit | None:
        return self.stepper.step(Input(ended=ended))

    def windows(self, name: str, query: Query) -> Windows:
        return read_results(self.path / "results" / name, query)


def shares(rows: list[Row], count: int, chance: random.Random) -> list[list[Row]]:
    """Each row at one of the edges, in the order of its time there."""
    found: list[list[Row]] = [[] for _ in range(count)]
    for row in sorted((row for row in rows if row["t"] is not None), key=lambda row: row["t"]):
        found[chance.randrange(count)].append(row)
    return found


@SETTINGS
@given(stories(with_clock=False), st.integers(0, 2**32), st.booleans())
def test_edges_and_root_say_what_the_reference_says_of_all_rows(story: Story, seed: int, restarts: bool) -> None:
    chance = random.Random(seed)
    story = replace(story, table=[row for row in story.table if row["t"] is not None], cuts=[], clocks=[None])
    stays = {name: replace(stay, joins=chance.randrange(3) if stay.joins else 0) for name, stay in story.stays.items()}
    with TemporaryDirectory() as temporary, without_sync():
        root = Root(Path(temporary), story.catalog)
        own = zip(EDGES, shares(story.table, len(EDGES), chance), strict=True)
        edges = [Edge(name, story.catalog, rows) for name, rows in own]
        waiting: list[Frame] = []
        for batch in range(4):
            for name, stay in stays.items():
                if stay.joins == batch:
                    ask(root.directory, "add", name, format_query(stay.query))
                if stay.leaves == batch and stay.joins < batch:
                    ask(root.directory, "drop", name)
            root.step()
            for edge in edges:
                if restarts and chance.random() < 0.3:
                    edge.restart()
                if edge.work is None or chance.random() < 0.6:
                    edge.poll(root.exchange.orders())
                edge.take(chance.randrange(1, 6))
                edge.cut()
                waiting, edge.frames = waiting + edge.frames, []
            chance.shuffle(waiting)
            sent, waiting = waiting[: len(waiting) // 2], waiting[len(waiting) // 2 :]
            root.deliver(sent)
            waiting += [frame for frame in sent if chance.random() < 0.3]
            if restarts and chance.random() < 0.3:
                root.restart()
            root.step()
        for edge in edges:
            edge.poll(root.exchange.orders())
            edge.take(len(edge.rows))
            edge.cut(ended=True)
            waiting += edge.frames
        chance.shuffle(waiting)
        root.deliver(waiting)
        while (commit := root.step(ended=True)) is not None and not commit.ended:
            pass
        assert commit is not None
        assert commit.totals.rows == len(story.table)
        assert not list(root.exchange.waiting()), root.stepper.waiting
        theirs, _ = run_reference(replace(story, stays=stays), from_the_start=True)
        for name, stay in stays.items():
            ours = root.windows(name, stay.query)
            compare(stay.query, ours, theirs[name])
            if stay.joins == 0 and (stay.leaves is None or stay.leaves > 3):
                assert ours.keys() == theirs[name].keys()
        root.stepper.close()


# One thing at a time

COUNTS = "SELECT count(*) AS n FROM r [RANGE '4 s']"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    found = Root(tmp_path, CATALOG, ("east", "west"))
    ask(found.directory, "add", "counts", COUNTS)
    found.step()
    return found


def rows_at(*seconds: int) -> list[Row]:
    return [{"t": second * 1_000_000, "k": "a", "v": second, "x": 0.5} for second in seconds]


def edge_of(root: Root, name: str, rows: list[Row]) -> Edge:
    found = Edge(name, CATALOG, rows)
    found.poll(root.exchange.orders())
    return found


def sent(root: Root, edge: Edge, count: int = 100) -> Frame:
    edge.take(count)
    edge.cut()
    return edge.frames[-1]


def test_windows_wait_for_the_slowest_edge(root: Root) -> None:
    east, west = edge_of(root, "east", rows_at(1, 9)), edge_of(root, "west", rows_at(2, 6))
    root.deliver([sent(root, east)])
    commit = root.step()
    assert commit is not None
    assert commit.watermark_us is None
    root.deliver([sent(root, west)])
    commit = root.step()
    assert commit is not None
    assert commit.watermark_us == 4_000_000
    root.step()
    assert root.windows("counts", parse_query(COUNTS, CATALOG)) == {(0, 4_000_000): [(0, 4_000_000, 2)]}


def test_an_edge_that_is_silent_holds_nobody_for_long(root: Root) -> None:
    idle_us = CATALOG.streams[0].idle_us
    east = edge_of(root, "east", rows_at(1, 9))
    root.deliver([sent(root, east, 1)])
    for clock_us, watermark_us in ((0, None), (idle_us, None)):
        commit = root.stepper.step(Input(clock_us))
        assert (commit or root.stepper.commit).watermark_us == watermark_us  # type: ignore[union-attr]
    root.deliver([sent(root, east)])
    commit = root.stepper.step(Input(idle_us + 1))
    assert commit is not None
    assert commit.watermark_us == 7_000_000


def test_a_frame_of_an_unknown_plan_is_parked(root: Root) -> None:
    east = edge_of(root, "east", rows_at(1))
    frame = sent(root, east)
    root.deliver([replace(frame, header=msgspec.structs.replace(frame.header, plan="ab12"), tables=())])
    root.step()
    assert root.stepper.waiting.parked == {frame.header.file_name: "its plan ab12 is not known"}
    assert [path.name for path in root.exchange.waiting()] == [frame.header.file_name]
    root.deliver([frame])
    commit = root.step()
    assert commit is not None
    assert commit.totals.rows == 1
    assert not root.stepper.waiting.parked


def test_what_is_no_frame_is_refused_and_told(root: Root, caplog: pytest.LogCaptureFixture) -> None:
    east = edge_of(root, "east", rows_at(1))
    frame = sent(root, east)
    stranger = replace(frame, header=msgspec.structs.replace(frame.header, edge="south"))
    (root.exchange.root / stranger.header.file_name).write_bytes(to_bytes(stranger))
    (root.exchange.root / "east~1~1.frame").write_bytes(b"HRfr and no more")
    root.step()
    refused = {path.name for path in (root.exchange.root / "refused").glob("*.frame")}
    assert refused == {stranger.header.file_name, "east~1~1.frame"}
    told = (
        """there is no edge 'south' in edges = ["east", "west"]: add it in the file of the root or relay, and start"""
    )
    assert told in caplog.text
    assert told in (root.exchange.root / "refused" / f"{stranger.header.file_name}.reason").read_text()
    assert caplog.text.count("this is not a frame") == 1
    assert root.stepper.commit is not None
    assert root.stepper.commit.totals.rows == 0


def test_a_frame_comes_back_from_refused(root: Root) -> None:
    """The edge went on meanwhile: what it sent later waits for it."""
    south = edge_of(root, "south", rows_at(1, 2, 3))
    first, second = sent(root, south, 2), sent(root, south, 1)
    path = root.exchange.root / first.header.file_name
    path.write_bytes(to_bytes(first))
    root.step()
    root.names = ("east", "west", "south")
    root.restart()
    root.deliver([second])
    root.step()
    assert list(root.stepper.waiting.parked) == [second.header.file_name]
    (root.exchange.root / "refused" / path.name).rename(path)
    commit = root.step()
    assert commit is not None
    assert commit.totals.rows == 3
    assert not list(root.exchange.waiting())


def test_what_is_parked_is_told_once(root: Root, caplog: pytest.LogCaptureFixture) -> None:
    """An edge whose state was deleted reads its source anew."""
    root.deliver([sent(root, edge_of(root, "east", rows_at(1, 2)))])
    root.step()
    again = edge_of(root, "east", rows_at(1, 2))
    again.incarnation = 2
    root.deliver([sent(root, again, 1), sent(root, again, 1)])
    for _ in range(3):
        root.step()
    (told,) = [record.message for record in caplog.records]
    assert told.startswith("edge east: parked east~0000000000000002~000000001.frame and 1 after it: ")
    assert "it does not begin where the edge was left: was its state deleted?" in told


@pytest.mark.parametrize(("wants_rows", "late", "dropped"), [(False, 3, 0), (True, 3, 3)])
def test_late_rows_are_counted(tmp_path: Path, wants_rows: bool, late: int, dropped: int) -> None:
    """The agent has sent the watermark 18 when it reads 1, 2 and 3, and all windows there are closed. Of partials
    nobody can tell which rows no window took.
    """
    root = Root(tmp_path, CATALOG, ("east",), wants_rows=wants_rows)
    ask(root.directory, "add", "counts", COUNTS)
    root.step()
    (tmp_path / "input").mkdir()
    for number, seconds in enumerate([(5, 20), (1, 2, 3, 19, 21)]):
        pq.write_table(pa.Table.from_pylist(rows_at(*seconds), SCHEMA), tmp_path / "input" / f"{number}.parquet")
        spool = Spool(tmp_path / "edge", "east", STREAM)
        source = FileSource(Source(str(tmp_path / "input")), CATALOG.streams[0], spool.known.files, None, print)
        Agent(CATALOG, CATALOG.streams[0], spool, source, lambda: root.exchange, mode=Mode.ONCE).run()
        while root.step() is not None:
            pass
    commit = root.stepper.commit
    assert commit is not None
    assert (commit.totals.rows, commit.totals.late, commit.totals.dropped) == (7, late, dropped)
    closed = root.windows("counts", parse_query(COUNTS, CATALOG))
    assert {start_us // 1_000_000: rows[0][-1] for (start_us, _), rows in closed.items() if rows[0][-1]} == {4: 1}


def test_a_query_that_fails_at_an_edge_comes_into_quarantine(tmp_path: Path) -> None:
    """The edge passes the rows on, late ones too; the root finds the query, and orders a plan without it."""
    root = Root(tmp_path, CATALOG, ("east",))
    sevens = "SELECT sum(v * 7) AS n FROM r [RANGE '4 s' SLIDE '2 s']"
    for name, sql in (("counts", COUNTS), ("sevens", sevens)):
        ask(root.directory, "add", name, sql)
    root.step()
    (tmp_path / "input").mkdir()
    column, told, plans = Evaluation.column_in_memory, list[str](), list[frozenset[str]]()

    def fail(evaluation: Evaluation, tree: Any) -> Any:
        if "'*'" in repr(tree) and evaluation.length > 3:
            raise ValueError("it does not fit")
        return column(evaluation, tree)

    with patch.object(Evaluation, "column_in_memory", fail):
        for number, seconds in enumerate([(5, 6), (7, 8), (1, 2, 9, 21, 22), (3, 23, 24, 25), (30,)]):
            pq.write_table(pa.Table.from_pylist(rows_at(*seconds), SCHEMA), tmp_path / "input" / f"{number}.parquet")
            spool = Spool(tmp_path / "edge", "east", STREAM)
            source = FileSource(Source(str(tmp_path / "input")), CATALOG.streams[0], spool.known.files, None, print)
            mode = Mode.BOUNDED if number == 4 else Mode.ONCE
            connect = lambda: root.exchange  # noqa: E731 - the way up
            Agent(CATALOG, CATALOG.streams[0], spool, source, connect, mode=mode, report=told.append).run()
            plans.append(frozenset(frame.header.plan or "rows" for frame in waiting(root)))
            while root.step() is not None:
                pass
        while root.step(ended=True) is not None:
            pass
    registry = root.stepper.registry
    assert "it does not fit" in (registry.queries["sevens"].quarantine or "")
    assert registry.active.keys() == {"counts"}
    assert len(told) == 1
    assert "query sevens" in told[0]
    assert "rows" in plans[2]
    assert "rows" not in plans[3], "the new plan asks for nothing that fails"
    commit = root.stepper.commit
    assert commit is not None
    assert (commit.totals.rows, commit.totals.late) == (14, 3)
    closed = root.windows("counts", parse_query(COUNTS, CATALOG))
    counted = {start_us // 1_000_000: rows[0][-1] for (start_us, _), rows in closed.items() if rows[0][-1]}
    assert counted == {4: 3, 8: 2, 20: 3, 24: 2, 28: 1}


def waiting(root: Root) -> list[Frame]:
    return [from_bytes(path.read_bytes()) for path in root.exchange.waiting()]


def test_a_root_that_died_behind_its_commit_takes_no_frame_twice(root: Root) -> None:
    east = edge_of(root, "east", rows_at(1, 2))
    frame = sent(root, east)
    root.deliver([frame])
    root.step()
    root.deliver([frame])
    root.restart()
    root.step()
    assert root.stepper.commit is not None
    assert root.stepper.commit.totals.rows == 2
    assert not list(root.exchange.waiting())


def test_edges_that_lack_a_query_hold_it_back_and_their_plans_are_kept(root: Root) -> None:
    """A frame that was cut under an old plan may come at any time."""
    edges = [edge_of(root, name, rows_at(*range(20))) for name in ("east", "west")]
    root.deliver([sent(root, edge, 2) for edge in edges])
    root.step()
    first = root.stepper.commit
    assert first is not None
    for edge in edges:
        edge.poll(root.exchange.orders())
        root.deliver(edge_frames(root, edge))
    root.step()
    ask(root.directory, "add", "groups", "SELECT k, max(v) AS v FROM r [RANGE '2 s'] GROUP BY k")
    root.step()
    commit = root.stepper.commit
    assert commit is not None
    registry = root.stepper.registry
    assert holding_back(root.directory, commit, registry) == {"groups": ["east", "west"]}
    edges[0].poll(root.exchange.orders())
    root.deliver(edge_frames(root, edges[0]))
    root.step()
    commit = root.stepper.commit
    assert commit is not None
    assert holding_back(root.directory, commit, registry) == {"groups": ["west"]}
    assert {first.plan, commit.plan} <= set(commit.plans)
    edges[1].poll(root.exchange.orders())
    root.deliver(edge_frames(root, edges[1]))
    root.step()
    commit = root.stepper.commit
    assert commit is not None
    assert holding_back(root.directory, commit, registry) == {}
    assert commit.plans == (commit.plan,)


def test_an_edge_that_names_its_plan_as_a_newer_version_does(root: Root) -> None:
    """Root and edges are updated together: the plan has another name then, and frames come under that."""
    edge = edge_of(root, "east", rows_at(*range(20)))
    with patch("headrace.planner.codec.VERSION", 3):
        root.deliver([sent(root, edge, 2), sent(root, edge_of(root, "west", []), 0)])
        root.step()
        root.step()
    before = root.stepper.commit
    assert before is not None
    root.restart()
    edge.poll(root.exchange.orders())
    root.deliver(edge_frames(root, edge))
    for _ in range(3):
        root.step()
    commit = root.stepper.commit
    assert commit is not None
    assert commit.plan != before.plan
    assert commit.totals.rows > before.totals.rows
    assert not list(root.exchange.waiting())


def edge_frames(root: Root, edge: Edge) -> list[Frame]:
    """What its poll cut, and one more frame."""
    before = len(edge.frames) - 1
    sent(root, edge, 2)
    return edge.frames[before:]


def test_a_plan_that_came_back_is_kept_for_who_may_have_it() -> None:
    east = EdgeState(plan="b")
    assert plans_to_keep(("a", "b", "a"), "c", {"east": east}, ["east"]) == ("b", "a", "c")
    assert plans_to_keep(("b", "a", "c"), "c", {"east": msgspec.structs.replace(east, plan="c")}, ["east"]) == ("c",)
    assert plans_to_keep(("a",), "b", {}, ["east"]) == ("a", "b")


def test_without_queries_edges_send_nothing_but_counts(root: Root) -> None:
    ask(root.directory, "drop", "counts")
    root.step()
    orders = root.exchange.orders()
    assert orders is not None
    assert orders.plan == NOTHING
    frame = sent(root, edge_of(root, "east", rows_at(1, 2)))
    assert frame.tables == ()
    root.deliver([frame])
    commit = root.step()
    assert commit is not None
    assert commit.totals.rows == 2


def test_rows_as_they_are_give_the_same_windows(tmp_path: Path) -> None:
    """Push-down is a matter of bytes alone."""
    found = {}
    for wants_rows in (False, True):
        root = Root(tmp_path / str(wants_rows), CATALOG, ("east", "west"), wants_rows=wants_rows)
        ask(root.directory, "add", "counts", COUNTS)
        root.step()
        for part in (1, 2):
            for place, name in enumerate(("east", "west")):
                edge = edge_of(root, name, rows_at(*range(place, 20, 2)))
                edge.incarnation, edge.read, edge.position = part, (part - 1) * 5, (part - 1) * 5
                root.deliver([sent(root, edge, 5)])
            root.step()
        root.step(ended=False)
        orders = root.exchange.orders()
        assert orders is not None
        assert (orders.plan is None) == wants_rows
        found[wants_rows] = root.windows("counts", parse_query(COUNTS, CATALOG))
    assert found[True] == found[False] != {}
