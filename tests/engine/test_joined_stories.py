"""Stories with static tables: rows with and without partners, tables that are read again on the way; each row is
joined to the tables as they are when it comes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headrace.engine.registry import answer_to, ask
from headrace.engine.sinks.sinks import ResultFolder
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input, Stepper
from headrace.model.arrow import arrow_type
from headrace.model.query import Output
from headrace.model.schema import Catalog
from headrace.reference import Interpreter, StepResult
from headrace.sql import format_query, parse_query, parse_script
from headrace.storage.directory import Directory, prepare
from tests.engine.file_stepper import FileStepper
from tests.engine.stories import MAX_EMPTY, Stay, Story, Told, Windows, arrow, read_results, without_sync
from tests.engine.test_steps import compare
from tests.oracle.pairs import DECIMALS, LEAVES, TAME, TEXTS, WHOLE, Pair, operation, same
from tests.oracle.tables import STREAM, Row, tables
from tests.oracle.test_kernel import weights
from tests.oracle.windowed import LAST, UNITS, AggregatePair, QueryPair, QueryWriter, windows

SETTINGS = settings(max_examples=70, suppress_health_check=[HealthCheck.too_slow], deadline=None)

TABLES = """
CREATE TABLE people (who STRING, title STRING, grade BIGINT, rate DOUBLE, active BOOLEAN);
CREATE TABLE places (code BIGINT, owner STRING, label STRING, area DECIMAL(10, 2));
CREATE TABLE prices (price DECIMAL(6, 1), word STRING, factor DOUBLE);
"""
COLUMNS: dict[str, dict[str, list[str]]] = {
    "people": {
        "text": ["who", "title"],
        "whole": ["grade"],
        "real": ["rate"],
        "tame": ["rate"],
        "condition": ["active"],
    },
    "places": {"text": ["owner", "label"], "whole": ["code"], "exact": ["area"]},
    "prices": {"text": ["word"], "real": ["factor"], "tame": ["factor"]},
}
JOINS = {
    "p1": "people AS p1 ON r.s = p1.who",
    "p2": "people AS p2 ON r.s = p2.who AND r.b = p2.active",
    "p3": "people AS p3 ON left(r.u, 1) = p3.who",
    "l1": "places AS l1 ON r.i = l1.code AND r.s = l1.owner",
    "l2": "places AS l2 ON r.j + 1 = l2.code AND r.u = l2.owner",
    "c1": "prices AS c1 ON r.d = c1.price",
    "c2": "prices AS c2 ON r.i = c2.price",
}
OF_JOIN = {name: text.split()[0] for name, text in JOINS.items()}
KEYS: dict[str, dict[str, list[Any]]] = {
    "people": {"who": TEXTS[:5]},
    "places": {"code": [0, 1, -1, 2, 3], "owner": TEXTS[:4]},
    "prices": {"price": [Decimal(text) for text in ("-3.0", "0.0", "0.1", "1.0", "1.5", "2.0")]},
}
OTHERS: dict[str, dict[str, list[Any]]] = {
    "people": {
        "title": [*TEXTS[:4], None],
        "grade": [*WHOLE, 1, 2, None],
        "rate": [*TAME, None],
        "active": [True, False, None],
    },
    "places": {"label": [*TEXTS, None], "area": [*map(Decimal, DECIMALS), None]},
    "prices": {"word": [*TEXTS[:3], None], "factor": [*TAME, None]},
}
TESTS = ["({} <= {})", "({0} IS NULL)", "({0} <> {1})", "({0} IS NULL OR {0} >= {1})", "({0} IN ({1}))"]
Tables = Mapping[str, list[Row]]


def static_rows(table: str, share: float, seed: int) -> list[Row]:
    """A share of all keys, each once; and rows with a NULL in their key, which nobody finds."""
    source = random.Random(seed)
    keys = [key for key in product(*KEYS[table].values()) if source.random() < share]
    keys += [(*keys[0][:-1], None)] * 2 if keys else []
    return [
        dict(zip(KEYS[table], key, strict=True))
        | {column: source.choice(values) for column, values in OTHERS[table].items()}
        for key in keys
    ]


def versions_of(table: str) -> st.SearchStrategy[list[Row]]:
    """Not drawn value by value: rows that look alike would seldom find a partner."""
    return st.builds(static_rows, st.just(table), st.sampled_from([1.0, 0.6, 0.0]), st.integers(0, 9_999))


class JoinedWriter(QueryWriter):
    """Names columns of joined tables too."""

    def __init__(self, draw: st.DrawFn, times_us: Sequence[int], joins: Sequence[str]) -> None:
        super().__init__(draw, times_us)
        self.joined: dict[str, list[Pair]] = {}
        for join in joins:
            for kind, names in COLUMNS[OF_JOIN[join]].items():
                self.joined.setdefault(kind, []).extend(same(f"{join}.{name}") for name in names)

    def expression(self, kind: str, depth: int = 2) -> Pair:
        if kind in self.joined and self.chance(3):
            return self.pick(self.joined[kind])
        return super().expression(kind, depth)

    def condition(self) -> Pair:
        """Often a plain test of a joined column, which many rows pass."""
        if not self.joined or self.chance(2):
            return super().condition()
        kind = self.pick(sorted(self.joined.keys() & {"whole", "real", "text", "exact"}))
        column, constant = self.pick(self.joined[kind]), self.pick(LEAVES[f"{kind}_constant"])
        return operation(f"{kind} {kind}", self.pick(TESTS)).write(column, constant)

    def group(self) -> Pair:
        if self.joined and self.chance(2):
            return self.pick(self.joined[self.pick(sorted(self.joined))])
        return super().group()


@dataclass(frozen=True, slots=True)
class JoinedQuery:
    query: QueryPair
    joins: tuple[str, ...]

    def ours(self) -> str:
        source = f"FROM r {self.query.window.ours()[0]}"
        return self.query.ours().replace(source, f"{source} {' '.join(self.joins)}", 1)


@st.composite
def joined_queries(draw: st.DrawFn) -> JoinedQuery:
    window = draw(windows)
    count = draw(st.sampled_from([1, 2, 2, 0]))
    joins = draw(st.lists(st.sampled_from(sorted(JOINS)), min_size=count, max_size=count, unique=True))
    writer = JoinedWriter(draw, [count * UNITS[window.unit] for count in range(-LAST, LAST + 1, 8)], joins)
    groups = tuple(writer.group() for _ in range(writer.pick([0, 1, 2])))
    aggregates = [AggregatePair(writer.exact_aggregate()) for _ in range(writer.pick([1, 2]))]
    aggregates += [writer.close_aggregate() for _ in range(writer.pick([0, 1]))]
    where = writer.condition() if writer.chance(2) else None
    having = writer.having() if writer.chance(4) else None
    order = writer.order(len(groups)) if groups and writer.chance(3) else ()
    limit = writer.pick([1, 2, 3]) if order and writer.chance(2) else None
    query = QueryPair(window, where, groups, tuple(aggregates), having, order, limit)
    return JoinedQuery(query, tuple(f"{writer.pick(['JOIN', 'LEFT JOIN'])} {JOINS[join]}" for join in joins))


@dataclass(frozen=True)
class JoinedStory(Story):
    """`versions` are the tables that are read before the row of a number comes, which begins a batch."""

    versions: Mapping[int, Tables] = field(default_factory=dict)

    @property
    def tables(self) -> list[Tables]:
        """As they are in each batch."""
        found: list[Tables] = []
        current: Tables = {}
        for begin in (0, *self.cuts):
            current = {**current, **self.versions.get(begin, {})}
            found.append(current)
        return found

    def cut_anew(self, cuts: set[int]) -> JoinedStory:
        """Other batches; tables change at the same rows."""
        places = sorted(cuts | (self.versions.keys() - {0}))
        return replace(self, cuts=places, clocks=[None] * (len(places) + 1))


@st.composite
def joined_stories(draw: st.DrawFn, *, with_clock: bool = True, in_time: bool = False) -> JoinedStory:
    asked = [draw(joined_queries()) for _ in range(draw(st.integers(1, 4)))]
    unit = asked[0].query.window.unit
    table = draw(tables(unit))
    lateness_us = 1_000_000 * UNITS["s"] if in_time else draw(st.sampled_from([20, 5, 0])) * UNITS[unit]
    partition = draw(st.sampled_from(["", " PARTITION s"]))
    clause = f"LATENESS '{lateness_us} us' SKEW '20 {unit}' IDLE '10 {unit}'{partition}"
    catalog = parse_script(f"{STREAM} {clause}; {TABLES}").catalog
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(table) - 1)), max_size=4)))
    clocks: list[int | None] = [None] * (len(cuts) + 1)
    if with_clock and draw(st.booleans()):
        times = st.lists(st.integers(-20, 60), min_size=len(clocks), max_size=len(clocks))
        clocks = [place * UNITS[unit] for place in sorted(draw(times))]
    versions = {0: {name: draw(versions_of(name)) for name in KEYS}}
    for begin in cuts:
        changed = draw(st.sets(st.sampled_from(sorted(KEYS)), max_size=2))
        versions |= {begin: {name: draw(versions_of(name)) for name in sorted(changed)}} if changed else {}
    stays = {}
    for place, each in enumerate(asked):
        joins = draw(st.sampled_from([0, 0, *range(len(cuts) + 1)]))
        leaves = draw(st.none() | st.integers(joins + 1, len(cuts) + 1)) if place else None
        stays[f"q{place}"] = Stay(parse_query(each.ours(), catalog), joins, leaves)
    return JoinedStory(catalog, table, cuts, clocks, stays, versions)


# The engine


@dataclass
class Engine:
    """Steps in this process; a restart goes on with the tables that the last step had."""

    root: Path
    story: JoinedStory
    reducers: int
    batch: int = 0

    def __post_init__(self) -> None:
        self.directory: Directory = prepare(self.root / "state", STREAM)
        self.stepper = self.started()

    def started(self) -> Stepper:
        setting = StreamSetting(
            uuid4().hex,
            str(self.directory.root),
            self.story.catalog,
            self.story.catalog.streams[0].name,
            None,
            max_empty=MAX_EMPTY,
        )
        tables = {table.name: partial(self.rows_of, table.name) for table in self.story.catalog.tables}
        folders = (ResultFolder(str(self.root / "results"), "parquet"),)
        stepper = FileStepper(setting, InProcess(), folders, reducers=self.reducers, tables=tables)
        if stepper.commit is None:
            stepper.changes.read_tables()
        return stepper

    def restart(self) -> None:
        self.stepper.close()
        self.stepper = self.started()

    def rows_of(self, table: str) -> pa.Table:
        return static(self.story.catalog, table, self.story.tables[self.batch][table])

    def ask_for_changes(self, begin: int) -> None:
        """What changes before a batch."""
        for table in self.story.versions.get(begin, {}) if begin else {}:
            ask(self.directory, "reload", table)
        for name, stay in self.story.stays.items():
            if stay.leaves == self.batch:
                ask(self.directory, "drop", name)
        for name, stay in self.story.stays.items():
            if stay.joins == self.batch:
                ask(self.directory, "add", name, format_query(stay.query))


def static(catalog: Catalog, name: str, rows: list[Row]) -> pa.Table:
    table = catalog.table(name)
    assert table is not None
    return pa.Table.from_pylist(rows, schema=pa.schema([(each.name, arrow_type(each.type)) for each in table.columns]))


def run_joined(
    story: JoinedStory, *, reducers: int = 2, partitions: int = 2, restarts: frozenset[int] = frozenset()
) -> Told:
    told = Told()
    with TemporaryDirectory() as temporary, without_sync():
        engine = Engine(Path(temporary), story, reducers)
        begins = [0, *story.cuts]
        for batch, rows in enumerate(story.batches):
            engine.batch = batch
            engine.ask_for_changes(begins[batch])
            size = -(-len(rows) // partitions) or 1
            parts = [arrow(rows[begin : begin + size]) for begin in range(0, len(rows), size)]
            told.commits.append(
                engine.stepper.step(Input(story.clocks[batch], rows=parts, sample=partial(arrow, rows)))
            )
            if batch in restarts:
                engine.restart()
        told.commits.append(engine.stepper.step(Input(ended=True)))
        engine.stepper.close()
        for name, stay in story.stays.items():
            told.windows[name] = read_results(Path(temporary) / "results" / name, stay.query)
    return told


# The reference


def run_joined_reference(
    story: JoinedStory, *, from_the_start: bool = False
) -> tuple[dict[str, Windows], list[StepResult]]:
    """Of each query its rows with weights behind them; queries join when they do, or all before the first batch."""
    interpreter = Interpreter(story.catalog.streams[0], max_empty=MAX_EMPTY)
    steps = []
    for batch, rows in enumerate(story.batches):
        interpreter.tables = dict(story.tables[batch])
        interpreter.indexes.clear()
        for name, stay in story.stays.items():
            if stay.leaves == batch and name in interpreter.queries:
                interpreter.drop(name)
        for name, stay in story.stays.items():
            if (0 if from_the_start else stay.joins) == batch:
                extra = tuple(Output(f"w{place}", tree) for place, tree in weights(stay.query).items())
                interpreter.register(name, replace(stay.query, outputs=(*stay.query.outputs, *extra)))
        steps.append(interpreter.batch(rows, story.clocks[batch]))
    steps.append(interpreter.end())
    found: dict[str, Windows] = {name: {} for name in story.stays}
    for step in steps:
        for result in step.results:
            bounds = result.window.start_us, result.window.end_us
            found[result.query].setdefault(bounds, []).extend(result.rows)
    return found, steps


@SETTINGS
@given(joined_stories(), st.integers(1, 3), st.integers(1, 3), st.frozensets(st.integers(0, 4)))
def test_joined_rows_count_as_in_the_reference(
    story: JoinedStory, reducers: int, partitions: int, restarts: frozenset[int]
) -> None:
    told = run_joined(story, reducers=reducers, partitions=partitions, restarts=restarts)
    least, steps = run_joined_reference(story)
    whole, _ = run_joined_reference(story, from_the_start=True)
    for name, stay in story.stays.items():
        ours = told.windows[name]
        compare(stay.query, ours, whole[name])
        assert {window for window, rows in least[name].items() if rows} <= ours.keys()
        kinds = {"outer" if join.outer else "inner" for join in stay.query.joins}
        event(f"{'some' if ours else 'no'} results of {' and '.join(sorted(kinds)) or 'no'} joins")
    totals = told.commits[-1].totals
    assert totals.rows == sum(step.counts.rows for step in steps)
    assert totals.late == sum(step.counts.late for step in steps)
    assert totals.future == sum(step.counts.future for step in steps)
    assert totals.dropped == sum(step.counts.dropped for step in steps)
    for commit, step in zip(told.commits, steps, strict=False):
        if not commit.ended:
            assert commit.watermark_us == step.watermark_us


@SETTINGS
@given(joined_stories(with_clock=False, in_time=True), st.integers(1, 3), st.integers(1, 3), st.data())
def test_batches_partitions_and_reducers_do_not_matter_for_joins(
    story: JoinedStory, reducers: int, partitions: int, choices: st.DataObject
) -> None:
    """For rows that come in time, and queries that were there first."""
    story = replace(story, stays={name: replace(stay, joins=0, leaves=None) for name, stay in story.stays.items()})
    other = story.cut_anew(choices.draw(st.sets(st.integers(1, max(1, len(story.table) - 1)), max_size=4)))
    first = run_joined(story, reducers=1, partitions=1)
    second = run_joined(other, reducers=reducers, partitions=partitions)
    theirs, _ = run_joined_reference(story)
    for name, stay in story.stays.items():
        expected = {window: rows for window, rows in theirs[name].items() if rows}
        assert first.windows[name].keys() == second.windows[name].keys() == expected.keys()
        compare(stay.query, second.windows[name], expected)
        compare(stay.query, first.windows[name], expected)
        event("with results" if expected else "without results")


# One table, read again


PEOPLE = "SELECT title, count(*) AS n FROM r [RANGE '4 s'] JOIN people ON r.s = people.who GROUP BY title"
COUNT = "SELECT count(*) AS n FROM r [RANGE '4 s'] JOIN people ON r.s = people.who"


def person(who: str, title: str) -> Row:
    return {"who": who, "title": title, "grade": None, "rate": None, "active": None}


def story_of(*versions: list[Row]) -> JoinedStory:
    """A row of `a` every second, each a batch, and before each another version of the people."""
    catalog = parse_script(f"{STREAM}; {TABLES}").catalog
    nothing: Row = dict.fromkeys("ijxysubd")
    rows = [nothing | {"t": second * 1_000_000, "s": "a"} for second in range(len(versions))]
    tables: dict[int, Tables] = {place: {"people": people} for place, people in enumerate(versions)}
    tables[0] = {**tables[0], "places": [], "prices": []}
    return JoinedStory(catalog, rows, list(range(1, len(rows))), [None] * len(rows), {}, tables)


@contextmanager
def engine_of(*versions: list[Row]) -> Iterator[Engine]:
    with TemporaryDirectory() as temporary, without_sync():
        engine = Engine(Path(temporary), story_of(*versions), 2)
        try:
            yield engine
        finally:
            engine.stepper.close()


def given_row(engine: Engine) -> Input:
    rows = engine.story.batches[engine.batch]
    return Input(rows=[arrow(rows)], sample=partial(arrow, rows))


def titles(engine: Engine, name: str) -> list[tuple[int, str, int]]:
    """The end of the window in seconds, title, count."""
    engine.stepper.step(Input(ended=True))
    found = read_results(engine.root / "results" / name, parse_query(PEOPLE, engine.story.catalog))
    return sorted((end // 1_000_000, *row[2:]) for (_, end), rows in found.items() for row in rows)


def test_a_row_is_joined_to_the_table_as_it_is_when_it_comes() -> None:
    """
    rows     a   a   a   a   a   a
    title    old     new
    windows  |---------------|-----
    """
    old, new = [person("a", "old")], [person("a", "new")]
    with engine_of(old, old, new, new, new, new) as engine:
        ask(engine.directory, "add", "titles", PEOPLE)
        for engine.batch in range(6):
            ask(engine.directory, "reload", "people")
            engine.stepper.step(given_row(engine))
        assert titles(engine, "titles") == [(4, "new", 2), (4, "old", 2), (8, "new", 2)]


def test_a_table_that_was_read_again_stays_when_the_engine_dies_before_the_commit() -> None:
    """
    rows     a   a   a   a
    title    old new
    dies         ^ after the journal, before the commit
    """
    old, new = [person("a", "old")], [person("a", "new")]
    with engine_of(old, new, new, new) as engine:
        ask(engine.directory, "add", "titles", PEOPLE)
        engine.stepper.step(given_row(engine))
        engine.batch = 1
        ask(engine.directory, "reload", "people")
        engine.stepper.begin(given_row(engine))
        engine.restart()
        for engine.batch in range(1, 4):
            engine.stepper.step(given_row(engine))
        assert titles(engine, "titles") == [(4, "new", 3), (4, "old", 1)]


def test_a_table_that_has_a_key_twice_is_not_taken() -> None:
    """Who asked is told, and the engine goes on with the rows that it had."""
    old = [person("a", "old")]
    with engine_of(old, [*old, person("a", "new")], old, old) as engine:
        ask(engine.directory, "add", "titles", PEOPLE)
        engine.stepper.step(given_row(engine))
        engine.batch = 1
        request = ask(engine.directory, "reload", "people")
        engine.stepper.step(given_row(engine))
        told = answer_to(engine.directory, request)
        assert told is not None
        assert told["code"] == "duplicate-key"
        for engine.batch in (2, 3):
            engine.stepper.step(given_row(engine))
        assert titles(engine, "titles") == [(4, "old", 4)]


@pytest.mark.parametrize("sql", [PEOPLE, COUNT], ids=["grouped", "ungrouped"])
def test_a_query_that_joins_a_table_by_a_key_that_is_there_twice_is_refused(sql: str) -> None:
    """Who asked is told, and the other queries go on."""
    twice = [person("a", "old"), person("a", "new")]
    with engine_of(twice, twice, twice) as engine:
        ask(engine.directory, "add", "counts", "SELECT count(*) AS n FROM r [RANGE '1 s']")
        engine.stepper.step(given_row(engine))
        engine.restart()
        engine.batch = 1
        request = ask(engine.directory, "add", "joined", sql)
        engine.stepper.step(given_row(engine))
        told = answer_to(engine.directory, request)
        assert told is not None
        assert told["code"] == "duplicate-key"
        engine.batch = 2
        engine.stepper.step(given_row(engine))
        assert engine.stepper.registry.queries.keys() == {"counts"}
