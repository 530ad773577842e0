"""Results are the same whatever the batches, their order inside, and the other queries registered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.model.time import SECOND_US
from headrace.reference import Interpreter, StepResult
from headrace.sql import parse_query, parse_script
from tests.oracle.tables import STREAM, Row, tables
from tests.oracle.values import canonical_row
from tests.oracle.windowed import UNITS, queries

relaxed = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True, slots=True)
class Registration:
    """A query that joins when so many rows have come, and leaves when so many more have."""

    name: str
    sql: str
    position: int = 0
    stay: int | None = None


@dataclass(frozen=True, slots=True)
class Story:
    """A stream, its rows in the order of arrival, and the queries on it."""

    options: str
    rows: Sequence[Row]
    registrations: Sequence[Registration]

    def positions(self) -> set[int]:
        """Where the registry changes; every way to cut the rows into batches must cut there."""
        joins = {registration.position for registration in self.registrations}
        return joins | {joined.position + joined.stay for joined in self.registrations if joined.stay is not None}

    def run(self, cuts: set[int], shuffled: Callable[[Sequence[Row]], Sequence[Row]] = list) -> list[StepResult]:
        """Batches end at the cuts, at every change of the registry and at the end of the stream."""
        catalog = parse_script(f"{STREAM} {self.options}").catalog
        interpreter = Interpreter(catalog.streams[0], max_empty=3)
        places = sorted({0, len(self.rows)} | {cut for cut in cuts | self.positions() if cut <= len(self.rows)})
        steps = []
        for place, following in zip(places, [*places[1:], None], strict=True):
            for registration in self.registrations:
                if registration.stay is not None and place == registration.position + registration.stay:
                    interpreter.drop(registration.name)
                if place == registration.position:
                    interpreter.register(registration.name, parse_query(registration.sql, catalog))
            if following is not None:
                steps.append(interpreter.batch(shuffled(self.rows[place:following])))
        return [*steps, interpreter.end()]


def told(steps: list[StepResult], name: str) -> Any:
    """All that a query gave: windows with their rows, gaps, errors."""
    results = [result for step in steps for result in step.results if result.query == name]
    windows = [(result.window, list(map(canonical_row, result.rows))) for result in results]
    gaps = [gap for step in steps for gap in step.gaps if gap.query == name]
    return windows, gaps, sum(step.counts.errors.get(name, 0) for step in steps)


def disorder_us(table: Sequence[Row]) -> int:
    """How far the worst row lags behind the highest event time before it."""
    highest, worst = None, 0
    for row in table:
        highest = row["t"] if highest is None else max(highest, row["t"])
        worst = max(worst, highest - row["t"])
    return worst


@st.composite
def stories(draw: st.DrawFn, *, ordered_enough: bool) -> Story:
    """One to three queries; the first is the one that is looked at."""
    asked = [draw(queries()) for _ in range(draw(st.integers(1, 3)))]
    table = draw(tables(asked[0].window.unit))
    lateness_us = disorder_us(table) if ordered_enough else draw(st.integers(0, 20)) * UNITS[asked[0].window.unit]
    partition = draw(st.sampled_from(["", " PARTITION s", " PARTITION x"]))
    registrations = []
    for place, query in enumerate(asked):
        position = draw(st.integers(0, len(table)))
        stay = draw(st.one_of(st.none(), st.integers(1, 20))) if place > 0 else None
        registrations.append(Registration(f"q{place}", query.ours(), position, stay))
    return Story(f"LATENESS '{lateness_us} us'{partition}", table, registrations)


def some_cuts(story: Story) -> st.SearchStrategy[set[int]]:
    return st.sets(st.integers(0, len(story.rows)))


@relaxed
@given(st.data(), stories(ordered_enough=True))
def test_any_batches_give_the_same(data: st.DataObject, story: Story) -> None:
    expected = told(story.run(set()), "q0")
    assert told(story.run(data.draw(some_cuts(story))), "q0") == expected
    assert told(story.run(set(range(len(story.rows)))), "q0") == expected


@relaxed
@given(st.data(), stories(ordered_enough=False))
def test_any_company_gives_the_same(data: st.DataObject, story: Story) -> None:
    """The others join and leave where they like; the batches are the same."""
    cuts = data.draw(some_cuts(story)) | story.positions()
    alone = Story(story.options, story.rows, story.registrations[:1])
    together, expected = story.run(cuts), alone.run(cuts)
    assert told(together, "q0") == told(expected, "q0")
    assert [step.watermark_us for step in together] == [step.watermark_us for step in expected]
    assert [step.counts.late for step in together] == [step.counts.late for step in expected]


@relaxed
@given(st.data(), stories(ordered_enough=False))
def test_any_order_inside_a_batch_gives_the_same(data: st.DataObject, story: Story) -> None:
    cuts = data.draw(some_cuts(story))
    shuffled = story.run(cuts, lambda batch: data.draw(st.permutations(batch)))
    for step, expected in zip(shuffled, story.run(cuts), strict=True):
        for name in (registration.name for registration in story.registrations):
            assert told([step], name) == told([expected], name)
        assert (step.counts, step.watermark_us) == (expected.counts, expected.watermark_us)
        assert sorted(map(repr, step.rejected)) == sorted(map(repr, expected.rejected))


@relaxed
@given(st.data(), stories(ordered_enough=False), st.integers(1, 30))
def test_no_row_is_lost_without_a_word(data: st.DataObject, story: Story, length: int) -> None:
    """A row lies in one tumbling window: what its count lacks was dropped, and is in the side output."""
    unit_us = SECOND_US if any(row["t"] % SECOND_US == 0 != row["t"] for row in story.rows) else 1
    count = Registration("count", f"SELECT count(*) AS n FROM r [RANGE '{length * unit_us} us']")
    steps = Story(story.options, story.rows, [count]).run(data.draw(some_cuts(story)))
    counted = sum(int(str(row[2])) for step in steps for result in step.results for row in result.rows)
    dropped = sum(step.counts.dropped for step in steps)
    assert counted == len(story.rows) - dropped
    assert dropped == sum(len(step.rejected) for step in steps) <= sum(step.counts.late for step in steps)
