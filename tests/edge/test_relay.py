"""A relay: whatever happens on the way, what arrives above is what the edges counted, each row once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aggregates.partials import Partial
from headrace.edge import relay as relays
from headrace.edge import relay_plans
from headrace.edge.relay import FrameBatch, Relay, lowest_watermark
from headrace.edge.relay_plans import PlanKeeping, Plans
from headrace.edge.spool import Spool
from headrace.engine.answers import answer, close_all, plan_for
from headrace.expressions.static_tables import Data
from headrace.kernel.close.windows import Closed
from headrace.kernel.combine import NodePartials
from headrace.kernel.interchange import pack
from headrace.kernel.level1.reader import Reader, ReadResult
from headrace.model.errors import UsageError
from headrace.sql import parse_query, parse_script
from headrace.wire.exchange import DirectoryExchange
from headrace.wire.frame_checks import check_partials, check_rows
from headrace.wire.frames import Frame, FrameError, Header, RowCounts, from_bytes, to_bytes
from headrace.wire.ledger import BEGINNING, EdgeState, FrameVerdict, decide, take_frame
from headrace.wire.orders import Orders
from tests.kernel.sketches.mutations import check_survived, limit_memory, mutated, needs_limit
from tests.wire.test_frames import arrow_bytes, with_tables

CATALOG = parse_script(
    "CREATE STREAM Trades (t TIMESTAMP, sym STRING, price DOUBLE, size BIGINT) EVENT TIME t IDLE '60 s';"
).catalog
(STREAM,) = CATALOG.streams
EDGES = ("east", "north", "south")
SECOND_US = 1_000_000
QUERIES = {
    name: parse_query(text, CATALOG)
    for name, text in {
        "plain": "SELECT sym, count(*) AS n, sum(size) AS s, sum(price) AS p, min(price) AS l, max(size) AS g "
        "FROM Trades [RANGE '10 s' SLIDE '5 s'] GROUP BY sym",
        "cells": "SELECT count(*) AS n, sum(size) AS s FROM Trades [RANGE '12 s' SLIDE '5 s'] WHERE price > 50",
        "lists": "SELECT median(size) AS m, count(DISTINCT sym) AS d FROM Trades [RANGE '10 s'] WHERE size < 8",
        "spread": "SELECT var_pop(size) AS v, max_by(sym, size) AS b FROM Trades [RANGE '10 s']",
        "sketches": "SELECT percentile_approx(price, 0.5) AS q, approx_count_distinct(sym) AS d, top_k(sym, 2) AS k, "
        "percentile_relative(price, 0.9) AS r, percentile_approx(price, 0.5, 1000) AS qq, "
        "approx_count_distinct(sym, 0.01) AS dd FROM Trades [RANGE '20 s']",
    }.items()
}


def rows_of(count: int, seed: int = 1) -> pa.Table:
    """About one a second. Prices are exact, also when they are added up."""
    source = np.random.default_rng(seed)
    return pa.table(
        {
            "t": pa.array(np.sort(source.integers(0, count * SECOND_US, count)), pa.timestamp("us", "UTC")),
            "sym": pa.array(source.choice(["a", "b", "c"], count)),
            "price": pa.array(source.integers(0, 400, count) / 4),
            "size": pa.array(source.integers(0, 10, count)),
        }
    )


ROWS = rows_of(90)
DATA = Data(CATALOG, STREAM, ROWS, {})
PLAN = plan_for(DATA, QUERIES)
OTHER_PLAN = plan_for(DATA, {name: QUERIES[name] for name in ("plain", "cells")})
ORDERS = Orders("Trades", PLAN, QUERIES)
PLAN_ID = ORDERS.plan_id


def partials_of(rows: pa.Table, plan: Any = PLAN) -> list[NodePartials]:
    run = ReadResult()
    Reader(DATA, QUERIES, plan).take_batch(run, rows)
    (kept,) = run.retained.plans.values()
    return [part for parts in kept.parts.values() for part in parts]


class Edge:
    """Cuts frames from rows, some at a time."""

    def __init__(self, name: str, rows: pa.Table, incarnation: int = 1) -> None:
        self.name = name
        self.rows = rows
        self.incarnation = incarnation
        self.sequence = 0
        self.read = 0

    def cut(self, count: int, plan: Any = PLAN, **fields: Any) -> Frame:
        rows, begins = self.rows.slice(self.read, count), {"row": self.read} if self.read else BEGINNING
        self.read += rows.num_rows
        self.sequence += 1
        times = rows["t"].cast(pa.int64()).to_pylist()
        header = Header(
            edge=self.name,
            incarnation=self.incarnation,
            sequence=self.sequence,
            stream="Trades",
            plan=None if plan is None else Orders("Trades", plan).plan_id,
            begins=begins,
            position={"row": self.read} if self.read else BEGINNING,
            watermark_us=max(times, default=None),
            lowest_us=min(times, default=None),
            highest_us=max(times, default=None),
            rows=RowCounts(read=rows.num_rows, late=2, bad=1),
            errors={"plain": 1},
        )
        if not rows.num_rows:
            tables: tuple[pa.Table, ...] = ()
        else:
            tables = (rows,) if plan is None else pack("Trades", partials_of(rows, plan))
        return Frame(msgspec.structs.replace(header, **fields), tables)


def all_cut(edge: Edge, size: int = 7) -> list[Frame]:
    """Its rows in frames, the last of which says that it is the last. Half-way the edge starts anew."""
    found = []
    while edge.read < edge.rows.num_rows:
        if edge.read >= edge.rows.num_rows // 2 and edge.incarnation == 1:
            edge.incarnation, edge.sequence = 5, 0
        found.append(edge.cut(size))
    return [*found, edge.cut(0, ended=True)]


@cache
def sent() -> tuple[tuple[Frame, ...], ...]:
    """All that each edge sends."""
    return tuple(tuple(all_cut(edge)) for edge in split(ROWS))


def split(rows: pa.Table, edges: Sequence[str] = EDGES) -> list[Edge]:
    return [Edge(name, rows.take(list(range(place, len(rows), len(edges))))) for place, name in enumerate(edges)]


class Place:
    """A relay in a folder, with a directory above it. The clock stands still unless it is moved."""

    def __init__(self, folder: Path, name: str = "west", edges: Iterable[str] = EDGES) -> None:
        self.folder = folder
        self.name = name
        self.edges = tuple(edges)
        self.now_us = 1_000
        self.above = DirectoryExchange(folder / "above")
        self.inbox = DirectoryExchange(folder / "inbox")
        self.plans = Plans(folder / "plans")
        self.plans.keep(PLAN)
        self.relay = self.started()

    def started(self) -> Relay:
        spool = Spool(self.folder / "spool", self.name, STREAM.name)
        args = (self.name, STREAM, self.edges, self.inbox, spool, self.plans)
        return Relay(*args, clock=lambda: self.now_us, idle_us=STREAM.idle_us)

    def put(self, *frames: Frame) -> None:
        for frame in frames:
            self.inbox.put(frame.header, to_bytes(frame))

    def restart(self) -> None:
        self.relay.spool.close()
        self.now_us += 1
        self.relay = self.started()

    def send(self) -> None:
        while (entry := self.relay.spool.first(0)) is not None:
            frame = entry.frame()
            self.above.put(from_bytes(frame).header, frame)
            self.relay.spool.acknowledge()

    def arrived(self) -> list[Frame]:
        """What a root would take, in order."""
        self.send()
        ledger: dict[str, EdgeState] = {}
        found = []
        for path in self.above.waiting():
            frame = from_bytes(path.read_bytes())
            assert decide(ledger, frame.header).verdict is FrameVerdict.TAKE
            ledger = take_frame(ledger, frame.header, 1)
            found.append(frame)
        return found

    def close(self) -> None:
        self.relay.spool.close()


@pytest.fixture
def place(tmp_path: Path) -> Any:
    found = Place(tmp_path)
    yield found
    found.close()


def answers(frames: Iterable[Frame]) -> dict[str, Any]:
    """What the queries say of the partials of frames, of whatever plans."""
    run = ReadResult()
    plans = {Orders("Trades", plan).plan_id: plan for plan in (PLAN, OTHER_PLAN)}
    for frame in frames:
        plan = plans[frame.header.plan]
        places = {plan.nodes[place].node: place for place in plan.shipped}
        run.retained.add(plan, {places[part.node]: part for part in check_partials(frame, "Trades", plan)})
    return told(close_all(run, DATA, QUERIES, 1_000))


def told(closed: Mapping[str, Closed]) -> dict[str, Any]:
    """Variances are the same up to rounding, all else is exact."""
    rows = {name: each.table.to_pylist() for name, each in closed.items()}
    rows["spread"] = [row | {"v": round(row["v"], 9)} for row in rows["spread"]]
    return rows


EXPECTED = told(answer(DATA, QUERIES).closed)


def check_all_arrived(frames: Sequence[Frame]) -> None:
    assert answers(frame for frame in frames if frame.tables) == EXPECTED
    assert sum(frame.header.rows.read for frame in frames) == len(ROWS)
    assert frames[-1].header.ended
    assert not any(frame.header.ended for frame in frames[:-1])


# All that can happen to frames


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_duplicates_reordering_and_restarts_change_nothing(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    random = Random(seed)
    place = Place(tmp_path_factory.mktemp("relay"))
    frames = [frame for each in sent() for frame in each]
    frames += random.choices(frames, k=5)
    random.shuffle(frames)
    for frame in frames:
        place.put(frame)
        if random.random() < 0.3:
            place.relay.step()
        if random.random() < 0.2:
            place.restart()
        if random.random() < 0.2:
            place.send()
    place.relay.step()
    check_all_arrived(place.arrived())
    assert not list(place.inbox.waiting())
    assert not place.relay.intake.parked
    place.close()


def test_many_frames_become_one(place: Place) -> None:
    east, north, south = split(ROWS)
    below = [edge.cut(20) for edge in (east, north, south) for _ in range(2)]
    place.put(*below)
    assert place.relay.step() == 1
    (frame,) = place.arrived()
    assert sum(len(table) for table in frame.tables) < sum(len(table) for each in below for table in each.tables)
    header = frame.header
    assert (header.edge, header.sequence, header.plan, header.begins) == ("west", 1, PLAN_ID, BEGINNING)
    assert header.rows == RowCounts(read=90, late=12, bad=6)
    assert header.errors == {"plain": 6}
    assert (header.lowest_us, header.highest_us) == tuple(ROWS["t"].cast(pa.int64()).to_numpy()[[0, -1]])
    assert {name: member.plan for name, member in header.members.items()} == dict.fromkeys(EDGES, PLAN_ID)


class Killed(Exception):
    pass


def test_a_relay_killed_between_spool_and_delete_counts_nothing_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.put(*(frame for each in sent() for frame in each[:3]))

    def kill(self: Path, missing_ok: bool = False) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", kill)
        with pytest.raises(Killed):
            place.relay.step()
    assert len(list(place.inbox.waiting())) == 9
    place.restart()
    place.put(*(frame for each in sent() for frame in each[3:]))
    place.relay.step()
    check_all_arrived(place.arrived())


def test_a_relay_killed_before_the_spool_counts_all_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.put(*(frame for each in sent() for frame in each))

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(place.relay.spool, "add", kill)
        with pytest.raises(Killed):
            place.relay.step()
    place.restart()
    place.relay.step()
    check_all_arrived(place.arrived())


def test_relays_follow_one_another(tmp_path: Path) -> None:
    low, high = Place(tmp_path / "low", "low", EDGES[:2]), Place(tmp_path / "high", "high", ("low", "south"))
    low.put(*sent()[0], *sent()[1])
    low.relay.step()
    high.put(*low.arrived(), *sent()[2])
    high.relay.step()
    frames = high.arrived()
    check_all_arrived(frames)
    assert set(frames[-1].header.members) == set(EDGES)
    low.close()
    high.close()


# Plans


def test_a_frame_of_an_unknown_plan_is_parked_until_the_plan_is_known(place: Place) -> None:
    edges = split(ROWS)
    frames = [edges[0].cut(10), edges[0].cut(10, OTHER_PLAN), edges[0].cut(10)]
    place.put(*frames)
    place.relay.step()
    assert list(place.relay.intake.parked) == [frame.header.file_name for frame in frames[1:]]
    assert "is not known" in place.relay.intake.parked[frames[1].header.file_name]
    assert len(place.arrived()) == 1
    place.plans.keep(OTHER_PLAN)
    assert place.relay.step() == 2
    assert [frame.header.plan for frame in place.arrived()] == [each.header.plan for each in frames]
    assert not place.relay.intake.parked


def test_frames_of_two_plans_become_two(place: Place) -> None:
    place.plans.keep(OTHER_PLAN)
    for edge in split(ROWS):
        place.put(edge.cut(10), edge.cut(10, OTHER_PLAN), edge.cut(10, OTHER_PLAN, ended=True))
    assert place.relay.step() == 2
    frames = place.arrived()
    assert [frame.header.rows.read for frame in frames] == [30, 60]
    found, expected = answers(frames), {name: EXPECTED[name] for name in ("plain", "cells")}
    assert {name: found[name] for name in expected} == expected


def test_rows_that_came_to_nothing_stay_under_their_plan(place: Place) -> None:
    """Else a query of the other plan would seem to have counted them."""
    place.plans.keep(OTHER_PLAN)
    east, north, south = split(ROWS)
    below = [replace(east.cut(10), tables=()), north.cut(5, OTHER_PLAN)]
    place.put(*below, south.cut(0))
    assert place.relay.step() == 2
    spans = [(each.header.plan, each.header.lowest_us, each.header.highest_us) for each in place.arrived()]
    assert spans == [(each.header.plan, each.header.lowest_us, each.header.highest_us) for each in below]


def test_plans_of_orders_are_kept_and_old_ones_forgotten(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_plans, "MAX_PLANS", 1)
    place.above.publish(Orders("Trades", OTHER_PLAN))
    assert PlanKeeping(place.above, place.plans).orders() == place.above.orders()
    other_id = Orders("Trades", OTHER_PLAN).plan_id
    assert PLAN_ID is not None
    assert other_id is not None
    place.plans.forget_old({PLAN_ID})
    assert place.plans.find(PLAN_ID) == PLAN
    assert place.plans.find(other_id) == OTHER_PLAN
    place.plans.forget_old(set())
    assert place.plans.find(PLAN_ID) is None
    assert place.plans.find(other_id)


def test_aggregates_of_users_must_be_known(place: Place) -> None:
    node = PLAN.nodes[0].node
    unknown = replace(node, partials=frozenset({Partial("user:mine", (), None)}))
    plan = replace(PLAN, nodes=(replace(PLAN.nodes[0], node=unknown),), answers=())
    with pytest.raises(UsageError, match="not known here: mine"):
        place.plans.keep(plan)


def test_rows_as_they_are_follow_one_another(place: Place) -> None:
    place.put(*(edge.cut(30, None) for edge in split(ROWS)))
    place.relay.step()
    (frame,) = place.arrived()
    (table,) = frame.tables
    assert frame.header.plan is None
    assert table.sort_by("t").equals(ROWS.sort_by("t"))


def test_a_cut_has_a_size(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "MAX_TAKEN_BYTES", 1)
    place.put(*(frame for each in sent() for frame in each))
    assert place.relay.step() == 18
    check_all_arrived(place.arrived())


def test_what_can_not_be_sent_is_not_taken(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "MAX_SPOOLED_BYTES", 1)
    edge, *_ = split(ROWS)
    place.put(edge.cut(10))
    assert place.relay.step() == 1
    place.put(edge.cut(10))
    assert place.relay.step() == 0
    place.send()
    assert place.relay.step() == 1


# Time


def watermark(place: Place) -> int | None:
    place.relay.step()
    return place.relay.watermark_us


def test_the_watermark_is_the_lowest_of_the_edges(place: Place) -> None:
    edges = split(ROWS)
    for edge, time_us in zip(edges, (30, 10, 20), strict=True):
        assert watermark(place) is None, f"{edge.name} has not been heard of"
        place.put(edge.cut(0, watermark_us=time_us))
    assert watermark(place) == 10
    place.put(edges[1].cut(0, watermark_us=25))
    assert watermark(place) == 20
    place.put(edges[2].cut(0, ended=True))
    assert watermark(place) == 25


def test_an_edge_that_is_silent_holds_nothing_back(place: Place) -> None:
    edges = split(ROWS)
    place.put(edges[0].cut(0, watermark_us=30), edges[1].cut(0, watermark_us=10))
    assert watermark(place) is None
    place.now_us += STREAM.idle_us - 1
    place.put(edges[0].cut(0, watermark_us=40))
    assert watermark(place) is None
    place.now_us += 1
    assert watermark(place) == 40
    place.put(edges[1].cut(0, watermark_us=12))
    assert watermark(place) == 40, "it never goes back"
    place.now_us += STREAM.idle_us
    assert watermark(place) == 40, "all are silent"


def test_an_edge_that_lives_and_has_no_rows_holds_nothing_back_for_long(place: Place) -> None:
    edges = split(ROWS)
    place.put(*(edge.cut(0, watermark_us=10) for edge in edges))
    assert watermark(place) == 10
    for time_us, expected_us in ((20, 10), (30, 10), (40, 40)):
        place.now_us += STREAM.idle_us // 3
        place.put(*(edge.cut(0, watermark_us=10) for edge in edges[:2]), edges[2].cut(0, watermark_us=time_us))
        assert watermark(place) == expected_us


def test_an_edge_whose_frames_are_parked_is_not_silent(place: Place) -> None:
    edges = split(ROWS)
    place.put(edges[0].cut(0, watermark_us=30), edges[1].cut(0, watermark_us=10), edges[2].cut(0, watermark_us=20))
    assert watermark(place) == 10
    place.put(edges[1].cut(10, OTHER_PLAN))
    for _ in range(3):
        place.now_us += STREAM.idle_us
        place.put(edges[0].cut(0), edges[2].cut(0, watermark_us=90))
        assert watermark(place) == 10


def test_a_watermark_that_moves_by_itself_is_told(place: Place) -> None:
    edges = split(ROWS)
    place.put(edges[0].cut(0, watermark_us=30, ended=True), edges[1].cut(0, watermark_us=20))
    place.relay.step()
    place.now_us += STREAM.idle_us - 1
    place.put(edges[1].cut(0, watermark_us=25))
    place.relay.step()
    place.now_us += 1
    assert place.relay.step() == 1
    assert place.relay.step() == 0
    *_, last = place.arrived()
    assert (last.header.watermark_us, last.tables, last.header.rows) == (25, (), RowCounts())


def test_when_all_have_ended_the_latest_counts() -> None:
    states = {"a": EdgeState(watermark_us=5, ended=True), "b": EdgeState(watermark_us=9, ended=True)}
    assert lowest_watermark(states, ("a", "b"), ()) == 9
    assert lowest_watermark(states, ("a", "b", "c"), ()) is None
    assert lowest_watermark(states, ("a", "b", "c"), ("c",)) is None
    assert lowest_watermark({}, ("a",), ()) is None


# Frames that are refused


def refused(place: Place) -> dict[str, str]:
    folder = place.inbox.root / "refused"
    return {path.name.removesuffix(".reason"): path.read_text() for path in folder.glob("*.reason")}


def test_frames_of_others_are_refused(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    stranger, elsewhere = Edge("stranger", ROWS).cut(5), Edge("north", ROWS).cut(5, stream="Quotes")
    place.put(elsewhere)
    (place.inbox.root / stranger.header.file_name).write_bytes(to_bytes(stranger))
    (place.inbox.root / "north~1~2.frame").write_bytes(b"nothing")
    place.relay.step()
    reasons = refused(place)
    told = (
        """there is no edge 'stranger' in edges = ["east", "north", "south"]: add it in the file of the root or relay"""
    )
    back = "and start that again; then put the file back from refused/"
    assert reasons[stranger.header.file_name] == f"{told}, {back}\n"
    assert f"refused: {stranger.header.file_name}: {told}" in caplog.text
    assert "of the stream Quotes" in reasons[elsewhere.header.file_name]
    assert "does not begin like one" in reasons["north~1~2.frame"]
    assert place.relay.intake.refused == 3
    assert not place.arrived()


def test_a_frame_comes_back_from_refused(place: Place) -> None:
    """Frames that came before anybody said who may send."""
    stranger = Edge("stranger", ROWS)
    frames = [stranger.cut(60), stranger.cut(30, ended=True)]
    for frame in frames:
        (place.inbox.root / frame.header.file_name).write_bytes(to_bytes(frame))
    place.relay.step()
    assert set(refused(place)) == {frame.header.file_name for frame in frames}
    place.edges = ("stranger",)
    place.restart()
    for frame in frames:
        (place.inbox.root / "refused" / frame.header.file_name).rename(place.inbox.root / frame.header.file_name)
    place.relay.step()
    check_all_arrived(place.arrived())


def test_parked_frames_are_told_with_edge_and_reason(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.put(Edge("north", ROWS).cut(5))
    place.relay.step()
    again = Edge("north", ROWS, incarnation=2)
    place.put(again.cut(5), again.cut(5))
    for _ in range(3):
        place.relay.step()
    (told,) = [record.message for record in caplog.records]
    assert told.startswith(
        "edge north: parked north~0000000000000002~000000001.frame and 1 after it: it does not begin"
    )
    assert "was its state deleted?" in told


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    place = table.schema.get_field_index(name)
    field = table.schema.field(place)
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, field.type)
    return table.set_column(place, field.with_type(array.type), array)


def damaged(kind: str, **changes: Any) -> Frame:
    """A frame in which the first table with such a column has it changed."""
    frame = Edge("north", ROWS).cut(40)
    tables = list(frame.tables)
    at = next(place for place, table in enumerate(tables) if any(name.startswith(kind) for name in table.column_names))
    name = next(name for name in tables[at].column_names if name.startswith(kind))
    values = tables[at][name].to_pylist()
    change = changes["change"]
    tables[at] = with_column(tables[at], name, change(values))
    return Frame(frame.header, tuple(tables))


@pytest.mark.parametrize(
    ("kind", "change", "reason"),
    [
        ("slice_start", lambda values: [values[0].replace(microsecond=1), *values[1:]], "slices"),
        ("slice_end", lambda values: [values[0].replace(year=2000), *values[1:]], "slices"),
        ("slice_start", lambda values: [None, *values[1:]], "belong nowhere"),
        ("cell", lambda values: [-1, *values[1:]], "cells"),
        ("cell", lambda values: [2**50, *values[1:]], "cells"),
        ("cell", lambda values: [None, *values[1:]], "belong nowhere"),
        ("cell", lambda values: pa.array(values, pa.int32()), "columns"),
        ("node", lambda values: pa.array(["none", *values[1:]]).dictionary_encode(), "ships no node"),
        ("node", pa.array, "not of partials"),
        ("count", lambda values: [-1, *values[1:]], "state"),
        ("count", lambda values: [None, *values[1:]], "state"),
        ("moments", lambda values: [None, *values[1:]], "state"),
        ("multiset", lambda values: [[*(values[0] or []), 1], *values[1:]], "state"),
        ("multiset", lambda values: [None, *values[1:]], "state"),
        ("quantiles", lambda values: [b"no sketch", *values[1:]], "state"),
        ("quantiles", lambda values: [None, *values[1:]], "state"),
        ("buckets", lambda values: [b"no sketch", *values[1:]], "state"),
        ("distinct", lambda values: [b"no sketch", *values[1:]], "state"),
        ("counters", lambda values: [b"no summary", *values[1:]], "state"),
    ],
)
def test_partials_that_are_not_those_of_the_plan_are_refused(
    tmp_path: Path, kind: str, change: Any, reason: str
) -> None:
    frame = damaged(kind, change=change)
    with pytest.raises(FrameError, match=reason):
        check_partials(frame, "Trades", PLAN)
    place = Place(tmp_path)
    place.put(frame)
    assert place.relay.step() == 0
    assert reason in refused(place)[frame.header.file_name]
    place.close()


def test_partials_that_are_whole_are_given() -> None:
    parts = check_partials(damaged("cell", change=lambda values: values), "Trades", PLAN)
    assert {part.node for part in parts} == {PLAN.nodes[place].node for place in PLAN.shipped}


def survive() -> None:
    """Tables of partials with damage, in a process that may take 1 GiB more than it has now: refused, or combined."""
    frame = Edge("north", ROWS).cut(60)
    tables = [arrow_bytes(table) for table in frame.tables]
    random, refused = Random(7), 0

    def combined(raw: bytes) -> None:
        found = from_bytes(raw)
        taken = FrameBatch({}, parts=2 * check_partials(Frame(frame.header, found.tables), "Trades", PLAN))
        to_bytes(Frame(frame.header, taken.tables("Trades")))

    for table in tables:
        combined(with_tables(table, 1))
    limit_memory()
    for _ in range(3_000):
        try:
            combined(with_tables(mutated(random.choice(tables), random.choice(tables), random), 1))
        except FrameError:
            refused += 1
    assert 1_000 < refused < 3_000, refused


@needs_limit
def test_damaged_partials_do_no_harm() -> None:
    check_survived("tests.edge.test_relay")


def test_rows_are_those_of_the_stream() -> None:
    header = Header("north", 1, 1, "Trades", None)
    (table,) = check_rows(Frame(header, (ROWS.select(["t", "size"]),)), STREAM)
    assert table["price"].null_count == len(ROWS)
    for bad in (with_column(ROWS, "size", pa.nulls(len(ROWS))), ROWS.append_column("more", [[1] * len(ROWS)])):
        with pytest.raises(FrameError, match="not declared"):
            check_rows(Frame(header, (bad,)), STREAM)


def test_a_position_is_what_is_needed_to_go_on(place: Place) -> None:
    place.put(*(edge.cut(10) for edge in split(ROWS)))
    place.relay.step()
    (frame,) = place.arrived()
    assert set(place.relay.spool.known.position["ledger"]) == set(EDGES)
    assert len(json.dumps(frame.header.position)) < 100
    place.restart()
    assert place.relay.ledger["north"].position == {"row": 10}
    assert place.relay.incarnation > frame.header.incarnation
