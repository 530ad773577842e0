"""One query must not stop the others: it comes into quarantine, and the others' results are those without it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace
from headrace.engine.registry import answer_to, ask
from headrace.engine.step.context import Step
from headrace.engine.step.quarantine import Bisection
from headrace.engine.step.runner import InProcess, Ran
from headrace.engine.step.stepper import Input, Stepper
from headrace.expressions.evaluation import Evaluation
from headrace.kernel.close import windows as closing_module
from headrace.model.errors import QueryFailure
from tests.engine.files import QUERIES, check_results, make_stepper, write_inputs
from tests.spark.test_engine import engine_over

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = 8
WIDE = "SELECT t, k, count(*) AS n FROM r [RANGE '6 s' SLIDE '1 s'] GROUP BY t, k"
pytestmark = pytest.mark.usefixtures("without_sync")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_inputs(tmp_path, STEPS)


def run_to_end(stepper: Stepper) -> None:
    while stepper.step(Input(ended=stepper.number > STEPS)) is not None:
        pass
    stepper.close()


def quarantined(stepper: Stepper) -> dict[str, str]:
    return {name: each.quarantine for name, each in stepper.registry.queries.items() if each.quarantine}


def check_others(root: Path) -> None:
    """The queries that were there first; `later`, which the helper knows too, is given what it expects."""
    with patch("tests.engine.files.LATER", {}):
        check_results(root, STEPS)


def test_a_query_with_too_many_rows_leaves_the_others_alone(root: Path) -> None:
    stepper = make_stepper(root)
    stepper.setting = replace(stepper.setting, max_result_rows=20)
    stepper.step(Input())
    request = ask(stepper.directory, "add", "wide", WIDE)
    for _ in range(5):
        stepper.step(Input())
    assert stepper.commit is not None
    assert "20" in quarantined(stepper)["wide"]
    answer = answer_to(stepper.directory, request)
    assert answer is not None
    assert "refused" not in answer
    assert make_is_stable(stepper)
    run_to_end(stepper)
    check_others(root)


def make_is_stable(stepper: Stepper) -> bool:
    """Once in quarantine a query is left out at once: no further attempt is needed."""
    commit = stepper.step(Input())
    return commit is not None and commit.attempt == 0


def test_a_commit_names_its_attempt_and_a_restart_knows_it(root: Path) -> None:
    stepper = make_stepper(root)
    stepper.setting = replace(stepper.setting, max_result_rows=20)
    ask(stepper.directory, "add", "wide", WIDE)
    for _ in range(STEPS):
        commit = stepper.step(Input())
        if quarantined(stepper):
            break
    assert commit is not None
    assert commit.attempt == 1
    journal = stepper.directory.journal(commit.step, 1)
    assert journal is not None
    assert [name for name, _ in journal.left_out] == ["wide"]
    stepper.close()
    again = make_stepper(root)
    assert quarantined(again).keys() == {"wide"}
    run_to_end(again)
    check_others(root)


def test_a_query_that_is_resumed_joins_again(root: Path) -> None:
    stepper = make_stepper(root)
    limited = replace(stepper.setting, max_result_rows=20)
    whole, stepper.setting = stepper.setting, limited
    ask(stepper.directory, "add", "wide", WIDE)
    for _ in range(STEPS):
        stepper.step(Input())
        if quarantined(stepper):
            break
    before = stepper.registry.queries["wide"]
    stepper.setting = whole
    good, bad = ask(stepper.directory, "resume", "wide"), ask(stepper.directory, "resume", "counts")
    stepper.step(Input())
    answers: list[Any] = [answer_to(stepper.directory, request) for request in (good, bad)]
    assert "start_us" in answers[0]
    assert answers[1]["code"] == "not-quarantined"
    after = stepper.registry.queries["wide"]
    assert (after.quarantine, after.generation > before.generation) == (None, True)
    run_to_end(stepper)
    rows = [row for path in (root / "results" / "wide").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert rows
    assert all(row["n"] >= 1 for row in rows)
    check_others(root)


def test_an_expression_that_fails_takes_its_queries_with_it(root: Path) -> None:
    """In level 1, where the expression is evaluated once for all queries that use it."""
    from headrace.kernel.level1.reader import Reader

    chunks = Reader.chunks
    sql = "SELECT count(*) AS n FROM r [RANGE '2 s'] WHERE v * 7 > 3"
    stepper = make_stepper(root)
    stepper.step(Input())
    for name in ("seven", "sevens"):
        ask(stepper.directory, "add", name, sql)

    def failing(reader: Reader, *given: Any) -> Any:
        if names := [name for name in reader.queries if name.startswith("seven")]:
            raise QueryFailure(names, "v * 7: it is too much")
        return chunks(reader, *given)

    with patch.object(Reader, "chunks", failing):
        run_to_end(stepper)
    assert quarantined(stepper) == dict.fromkeys(("seven", "sevens"), "v * 7: it is too much")
    check_others(root)


def test_a_slow_query_is_left_out_from_the_next_step_on(root: Path) -> None:
    """The clock of the reducers runs a minute for every window of the query that is closed."""
    stepper = make_stepper(root)
    ask(stepper.directory, "add", "slow", "SELECT count(*) AS n FROM r [RANGE '2 s']")
    now_s = 0.0
    close = closing_module.close

    def closing(query: Any, *given: Any, **named: Any) -> Any:
        nonlocal now_s
        closed = close(query, *given, **named)
        now_s += 61.0 * closed.windows if query.window.range_us == 2_000_000 else 0.0
        return closed

    commits = []
    with (
        patch("headrace.engine.step.level2_task.close", closing),
        patch("headrace.engine.step.level2_task.time.monotonic", lambda: now_s),
    ):
        while (commit := stepper.step(Input(ended=stepper.number > STEPS))) is not None:
            commits.append(commit)
    stepper.close()
    assert "60 s are allowed" in quarantined(stepper)["slow"]
    assert {commit.attempt for commit in commits} == {0}, "no step was run again"
    check_others(root)


def test_an_expression_that_fails_when_plans_are_made(root: Path) -> None:
    """After a restart the sample is new: its values may be the first that do not fit."""
    column = Evaluation.column_in_memory
    seven = "SELECT k, sum(v * 7) AS n FROM r [RANGE '2 s'] WHERE v * 7 > 3 GROUP BY k"
    stepper = make_stepper(root)
    ask(stepper.directory, "add", "seven", seven)
    for _ in range(2):
        stepper.step(Input())
    stepper.close()
    ask(stepper.directory, "add", "other", "SELECT k, min(x) AS n FROM r [RANGE '2 s'] WHERE v > 5 GROUP BY k")

    def failing(evaluation: Evaluation, tree: Any) -> Any:
        if "'*'" in repr(tree):
            raise ValueError("it does not fit")
        return column(evaluation, tree)

    with patch.object(Evaluation, "column_in_memory", failing):
        again = make_stepper(root)
        run_to_end(again)
    assert quarantined(again).keys() == {"seven"}
    check_others(root)


class Mortal(InProcess):
    """A runner whose workers die when certain queries are answered together with rows."""

    def __init__(self, poison: set[str]) -> None:
        super().__init__(2)
        self.poison = poison
        self.attempts = 0

    def run(self, step: Step, rows: Any) -> Ran:
        self.attempts += 1
        if not self.poison.isdisjoint(step.registry.active):
            raise MemoryError("Python worker exited unexpectedly (crashed)")
        return super().run(step, rows)


@pytest.mark.parametrize("poison", [{"n0"}, {"n4"}, {"n2", "n3"}, {"n0", "n1", "n2", "n3", "n4"}])
def test_a_worker_that_dies_is_blamed_on_those_who_came(root: Path, poison: set[str]) -> None:
    stepper = make_stepper(root)
    stepper.step(Input())
    stepper.runner = Mortal(poison)
    for number in range(5):
        ask(stepper.directory, "add", f"n{number}", f"SELECT count(*) AS n FROM r [RANGE '{number + 2} s']")
    stepper.step(Input())
    assert quarantined(stepper).keys() == poison
    run_to_end(stepper)
    check_others(root)


def test_an_accident_blames_nobody(root: Path) -> None:
    """A worker that dies once, and not again."""
    stepper = make_stepper(root)
    run, deaths = InProcess.run, [MemoryError("once")]

    def dies_once(runner: InProcess, *given: Any) -> Ran:
        if deaths:
            raise deaths.pop()
        return run(runner, *given)

    with patch.object(InProcess, "run", dies_once):
        run_to_end(stepper)
    assert not quarantined(stepper)
    assert stepper.directory.attempts(1) == 1, "the step was run again as it was begun"
    check_others(root)


def test_a_crash_in_the_search_blames_nobody(root: Path) -> None:
    """What a restart runs is the step as it was begun, not one of the trials."""
    stepper = make_stepper(root)
    deaths = [MemoryError("a"), MemoryError("b"), KeyboardInterrupt()]
    with patch.object(InProcess, "run", side_effect=deaths), pytest.raises(KeyboardInterrupt):
        stepper.step(Input())
    stepper.close()
    assert stepper.directory.attempts(1) == 2
    again = make_stepper(root)
    run_to_end(again)
    assert not quarantined(again)
    check_others(root)


@pytest.mark.parametrize("action", ["drop", "replace"])
def test_a_query_that_leaves_while_its_last_windows_fail(root: Path, action: str) -> None:
    """Its name may be another's by then, who is not to blame."""
    stepper = make_stepper(root)
    ask(stepper.directory, "add", "wide", WIDE)
    for _ in range(3):
        stepper.step(Input())
    ask(stepper.directory, action, "wide", "SELECT count(*) AS n FROM r [RANGE '3 s']" if action == "replace" else "")
    stepper.setting = replace(stepper.setting, max_result_rows=12)
    commit = stepper.step(Input())
    assert commit is not None
    assert commit.attempt == 1
    assert not quarantined(stepper)
    run_to_end(stepper)
    check_others(root)


def test_a_worker_that_dies_of_an_old_query_ends_the_run(root: Path) -> None:
    stepper = make_stepper(root)
    stepper.step(Input())
    stepper.runner = Mortal(set(QUERIES))
    with pytest.raises(MemoryError):
        stepper.step(Input())
    stepper.close()
    run_to_end(make_stepper(root))
    check_others(root)


@settings(max_examples=200)
@given(count=st.integers(1, 12), poison=st.sets(st.integers(0, 11), min_size=1))
def test_bisection_finds_the_guilty_and_nobody_else(count: int, poison: set[int]) -> None:
    names = [str(number) for number in range(count)]
    guilty = {str(number) for number in poison if number < count}
    if not guilty:
        return
    search, attempts = Bisection(names), 0
    while True:
        attempts += 1
        assert attempts <= 4 * count + 4
        if guilty <= set(search.left_out):
            if search.note_success():
                break
        else:
            assert search.note_failure()
    assert set(search.left_out) == guilty


def test_a_query_whose_workers_die_on_spark(spark: SparkSession, root: Path) -> None:
    """The worker ends itself when the function is called; the run goes on without the query."""

    @headrace.user_function(parameters=["BIGINT"], returns="BIGINT")
    def die(value: int) -> int:
        os._exit(13 + 0 * value)

    engine = engine_over(spark, root, reducers=2, step_bytes=1)
    engine.stream("r", root / "input")
    engine.functions([die])
    for name, sql in QUERIES.items():
        engine.add(name, sql)
    run = engine.run()
    (pipeline,) = run.pipelines
    stepper = pipeline.stepper
    pipeline.step(Input())
    ask(stepper.directory, "add", "deadly", "SELECT sum(die(v)) AS n FROM r [RANGE '2 s']")
    ask(stepper.directory, "add", "harmless", "SELECT count(*) AS n FROM r [RANGE '2 s']")
    while pipeline.step(Input(ended=stepper.number > STEPS)) is not None:
        pass
    assert quarantined(stepper).keys() == {"deadly"}
    run.stop()
    check_others(root)
