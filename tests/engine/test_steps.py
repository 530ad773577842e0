"""Steps in this process against the reference fed the same batches: late rows, joining, leaving, restarts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headrace.engine.registry import ask
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input, Stepper
from headrace.expressions import columns
from headrace.model.query import Query
from headrace.model.time import SECOND_US
from headrace.sql import parse_script
from headrace.storage.directory import prepare
from tests.engine.stories import Story, Windows, arrow, run_engine, run_reference, stories, without_sync
from tests.oracle.tables import STREAM
from tests.oracle.test_kernel import check
from tests.oracle.values import canonical_row

SETTINGS = settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def in_order(query: Query, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of a window come from several reducers: without LIMIT in no order among them."""
    if query.limit is not None:
        return rows
    places = [place for place, output in enumerate(query.outputs) if output.expression in query.group_by]
    return sorted(rows, key=lambda row: repr([canonical_row((row[place],)) for place in places]))


def compare(query: Query, ours: Windows, theirs: Windows) -> None:
    for window, rows in ours.items():
        check(query, in_order(query, rows), in_order(query, theirs.get(window, [])))


@SETTINGS
@given(
    stories(),
    st.integers(1, 3),
    st.integers(1, 3),
    st.frozensets(st.integers(0, 4)),
    st.booleans(),
    st.dictionaries(st.integers(0, 4), st.integers(1, 6)),
)
def test_the_engine_says_what_the_reference_says(
    story: Story,
    reducers: int,
    partitions: int,
    restarts: frozenset[int],
    bounded_last: bool,
    rescales: dict[int, int],
) -> None:
    with patch("headrace.model.key_groups.QUERIES_PER_COPY", 1):
        told = run_engine(
            story,
            reducers=reducers,
            partitions=partitions,
            restarts=restarts,
            bounded_last=bounded_last,
            rescales=rescales,
        )
    least, steps = run_reference(story)
    whole, _ = run_reference(story, from_the_start=True)
    for name, stay in story.stays.items():
        ours = told.windows[name]
        compare(stay.query, ours, whole[name])
        assert least[name].keys() <= ours.keys()
        event("more than the reference" if len(ours) > len(least[name]) else "as the reference")
    totals = told.commits[-1].totals
    assert totals.rows == sum(step.counts.rows for step in steps)
    assert totals.late == sum(step.counts.late for step in steps)
    assert totals.future == sum(step.counts.future for step in steps)
    assert totals.dropped == sum(step.counts.dropped for step in steps)
    for commit, step in zip(told.commits, steps, strict=False):
        if not commit.ended:
            assert commit.watermark_us == step.watermark_us


@SETTINGS
@given(stories(with_clock=False, in_time=True), st.integers(1, 3), st.integers(1, 3), st.data())
def test_batches_partitions_and_reducers_do_not_matter(
    story: Story, reducers: int, partitions: int, choices: st.DataObject
) -> None:
    """For rows that come in time, and queries that were there first."""
    story = replace(story, stays={name: replace(stay, joins=0, leaves=None) for name, stay in story.stays.items()})
    cuts = sorted(choices.draw(st.sets(st.integers(1, max(1, len(story.table) - 1)), max_size=4)))
    other = replace(story, cuts=cuts, clocks=[None] * (len(cuts) + 1))
    first = run_engine(story, reducers=1, partitions=1)
    second = run_engine(other, reducers=reducers, partitions=partitions)
    theirs, _ = run_reference(story)
    for name, stay in story.stays.items():
        assert first.windows[name].keys() == second.windows[name].keys() == theirs[name].keys()
        compare(stay.query, second.windows[name], theirs[name])
        compare(stay.query, first.windows[name], theirs[name])


@SETTINGS
@given(stories())
def test_other_queries_do_not_matter(story: Story) -> None:
    """Each alone gets what it gets among all; who joins late gets more or less by what was kept for others, and always
    what the reference gives it.
    """
    together = run_engine(story)
    theirs, _ = run_reference(story, from_the_start=True)
    least, _ = run_reference(story)
    for name, stay in story.stays.items():
        alone = run_engine(replace(story, stays={name: stay})).windows[name]
        assert least[name].keys() <= alone.keys() & together.windows[name].keys()
        if stay.joins == 0:
            assert alone.keys() == together.windows[name].keys()
        compare(stay.query, alone, theirs[name])


def quarantine_of(stepper: Stepper) -> dict[str, str | None]:
    return {name: each.quarantine for name, each in stepper.registry.queries.items()}


def test_a_query_that_gives_too_many_rows_is_left_out(tmp_path: Path) -> None:
    script = parse_script(STREAM)
    setting = StreamSetting(str(tmp_path), str(tmp_path / "state"), script.catalog, "r", None, max_result_rows=3)
    directory = prepare(tmp_path / "state", STREAM)
    with without_sync():
        stepper = Stepper(setting, InProcess())
        ask(directory, "add", "few", "SELECT count(*) AS n FROM r [RANGE '1 hour']")
        ask(directory, "add", "many", "SELECT count(*) AS n FROM r [RANGE '1 s']")
        rows = arrow([{"t": second * SECOND_US} for second in range(10)])
        stepper.step(Input(None, rows=[rows], sample=lambda: rows))
        stepper.step(Input(ended=True))
        stepper.close()
    quarantine = quarantine_of(stepper)
    assert quarantine["few"] is None
    assert "more than 3 result rows" in (quarantine["many"] or "")


def test_queries_whose_expression_fails_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = parse_script(STREAM)
    setting = StreamSetting(str(tmp_path), str(tmp_path / "state"), script.catalog, "r", None)
    directory = prepare(tmp_path / "state", STREAM)
    with without_sync():
        stepper = Stepper(setting, InProcess())
        ask(directory, "add", "good", "SELECT count(*) AS n FROM r [RANGE '1 hour']")
        for name in ("first", "second"):
            ask(directory, "add", name, f"SELECT max(length(s || s)) AS {name} FROM r [RANGE '1 hour']")
        rows = arrow([{"t": second * SECOND_US, "s": "abc"} for second in range(10)])
        stepper.step(Input(None, rows=[rows], sample=lambda: rows))
        monkeypatch.setattr(columns, "MAX_HELD_BYTES", 10)
        commit = stepper.step(Input(None, rows=[rows], sample=lambda: rows))
        stepper.close()
    assert commit is not None
    assert [name for name, reason in quarantine_of(stepper).items() if reason] == ["first", "second"]
