"""A run by itself: what ends it is told, and questions about queries are answered whatever has run yet."""

from __future__ import annotations

import logging
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headrace
from headrace.engine.run import Run
from headrace.engine.step.runner import InProcess, Ran
from headrace.model.errors import HeadraceError, UsageError
from headrace.model.query_names import QUERY_NAME_HINT
from headrace.spark import engine as engine_module
from headrace.sql import parse_script
from tests.engine.files import batches, write_input
from tests.engine.test_chain import CHAIN, DECLARATIONS, GROUPS, SMOOTH, engine_in, here

__all__ = ["here"]
pytestmark = pytest.mark.usefixtures("here")
CHAINED = {name: CHAIN[name] for name in ("groups", "smooth")}
PATIENCE_S = 60.0


def with_rows(root: Path) -> Path:
    for number, rows in enumerate(batches(6)):
        write_input(root / "r", rows, number)
    return root


def failing(query: str, step: int, rows: pa.Table) -> None:
    if query == "smooth":
        raise RuntimeError("my mistake")


def test_a_callback_that_fails_ends_the_run_with_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = engine_in(with_rows(tmp_path), CHAINED)
    engine.sink("callback", function=failing)
    run = engine.start(trigger="1 ms")
    with pytest.raises(UsageError) as caught:
        run.join(PATIENCE_S)
    problem = caught.value
    assert problem.code == "callback"
    assert problem.message.startswith("the callback sink's function failing failed on query 'smooth', step ")
    assert problem.message.endswith(": RuntimeError: my mistake")
    assert isinstance(problem.__cause__, RuntimeError)
    (told,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert problem.message in told.getMessage()
    assert told.exc_info is not None
    assert told.exc_info[1] is problem.__cause__
    assert run.exception() is problem
    assert repr(run).startswith("<headrace.Run failed with callback: r at step ")
    for call in (lambda: run.add("n", GROUPS), lambda: run.drop("groups"), lambda: run.results("groups")):
        with pytest.raises(HeadraceError, match="the run has stopped: the callback sink's function") as later:
            call()
        assert (later.value.code, later.value.__cause__) == ("run-failed", problem)
    assert run.progress()[0].totals.rows > 0
    with pytest.raises(UsageError, match="my mistake"):
        run.stop()


def test_a_run_that_has_ended_takes_no_requests(tmp_path: Path) -> None:
    """It says so at once: no step would answer."""
    engine = engine_in(with_rows(tmp_path), CHAINED)
    run = engine.start(trigger="1 ms")
    assert run.is_active
    run.stop()
    assert (run.is_active, run.exception()) == (False, None)
    done = engine.once()
    assert repr(done).startswith("<headrace.Run done: r at step ")
    for ended in (run, done):
        begun = time.monotonic()
        for call in (partial(ended.add, "n", GROUPS), partial(ended.drop, "groups")):
            with pytest.raises(UsageError) as caught:
                call()
            assert caught.value.code == "run-stopped"
        assert time.monotonic() - begun < 5
        assert ended.results("groups").num_rows > 0
    done.stop()
    assert repr(done).startswith("<headrace.Run stopped: r at step ")


def test_a_second_run_over_a_state_says_how_to_end_the_first(tmp_path: Path) -> None:
    """As when the cell of a notebook is run twice."""
    engine = engine_in(with_rows(tmp_path), CHAINED)
    first = engine.start(trigger="1 ms")
    with pytest.raises(UsageError) as caught:
        engine_in(tmp_path, CHAINED).start()
    assert caught.value.code == "state-in-use"
    assert "run.stop()" in (caught.value.hint or "")
    assert first.is_active
    second = engine_in(tmp_path, CHAINED).start(replace=True)
    assert (first.is_active, second.is_active) == (False, True)
    second.stop()


def test_a_run_that_failed_makes_way_for_the_next(tmp_path: Path) -> None:
    engine = engine_in(with_rows(tmp_path), CHAINED)
    engine.sink("callback", function=failing)
    with pytest.raises(UsageError, match="my mistake"):
        engine.start(trigger="1 ms").join(PATIENCE_S)
    engine.sinks.clear()
    engine.once().stop()


def test_names_obey_one_rule(tmp_path: Path) -> None:
    engine = engine_in(tmp_path, CHAINED)
    rows = pa.table({"t": pa.array([0], pa.timestamp("us", "UTC"))})
    with engine.start(trigger="1 ms") as run:
        for name in ("a b", "1st", "a-b", "q" * 65):
            query = {name: "SELECT count(*) AS n FROM stream [RANGE '1 s']"}
            for call in (
                partial(engine.add, name, GROUPS),
                partial(run.add, name, GROUPS),
                partial(parse_script, f"{DECLARATIONS}; CREATE QUERY `{name}` AS {GROUPS}"),
                partial(headrace.aggregate, rows, query),
            ):
                with pytest.raises(HeadraceError) as caught:
                    call()
                assert (caught.value.code, caught.value.hint) == ("query-name", QUERY_NAME_HINT)
        for name, sql in (("Groups", GROUPS), ("GROUPS", SMOOTH), ("Smooth", GROUPS)):
            for add in (engine.add, run.add):
                with pytest.raises(UsageError, match=f"there is a query '{name.lower()}' already"):
                    add(name, sql)


def test_a_step_is_handed_over_again_until_it_is_taken(tmp_path: Path) -> None:
    """Whoever refuses it at the start leaves the state to the next."""
    taken: list[tuple[str, int]] = []

    def engine_with(function: object) -> Run:
        engine = engine_in(tmp_path, CHAINED)
        engine.sink("callback", function=function)
        return engine.once()

    with_rows(tmp_path)
    for _ in range(2):
        with pytest.raises(UsageError, match="query 'smooth', step ") as caught:
            engine_with(failing)
    with engine_with(lambda query, step, rows: taken.append((query, step))):
        pass
    refused = int(caught.value.message.partition("step ")[2].partition(":")[0])
    assert ("smooth", refused) in taken


def test_queries_are_known_before_their_first_step(tmp_path: Path) -> None:
    run = engine_in(tmp_path, CHAINED).run()
    with run:
        for name in CHAINED:
            empty = run.results(name)
            assert empty.num_rows == 0
            assert empty.column_names[:3] == ["window_start", "window_end", "k"]


def test_queries_are_known_in_the_midst_of_their_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[tuple[int, bool]] = []

    class Watched(InProcess):
        def run(self, *given: Any) -> Ran:
            looks.append((run.results("groups").num_rows, run.chain.holder("groups") is not None))
            return super().run(*given)

    monkeypatch.setattr(engine_module, "SparkRunner", lambda _: Watched(2))
    with engine_in(with_rows(tmp_path), CHAINED).run() as run:
        run.once()
    assert looks[0] == (0, True)
    assert looks[-1][0] > 0


def test_a_query_that_is_not_there(tmp_path: Path) -> None:
    run = engine_in(tmp_path, CHAINED).run()
    with run:
        for asked in (run.drop, run.results):
            with pytest.raises(UsageError) as caught:
                asked("smoth")
            assert (caught.value.code, caught.value.hint) == ("no-query", "did you mean 'smooth'?")
            assert caught.value.message == "there is no query 'smoth'"


def test_columns_that_can_not_be_read_are_told_of(tmp_path: Path) -> None:
    rows = pa.table({"t": pa.array([0], pa.timestamp("us", "UTC")), "tags": [["x"]]})
    engine = engine_in(tmp_path, {})
    engine.table("Other", rows.rename_columns(["key", "notes"]))
    with pytest.raises(UsageError, match="two columns named 'T'"):
        engine.table("Twice", rows.rename_columns(["t", "T"]).append_column("T", rows["t"]))
    with pytest.raises(Exception, match="no column 'notes'") as caught:
        engine.add("q", "SELECT max(o.notes) AS n FROM r [RANGE '1 s'] JOIN Other o ON r.t = o.key")
    assert "it is of type list<" in str(caught.value)
