"""A run by itself: what ends it is told, and questions about queries are answered whatever has run yet."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.engine.in_process import InProcess
from headrace.engine.step import Ran
from headrace.model.errors import UsageError
from headrace.spark import engine as engine_module
from headrace.spark.run import Run
from tests.engine.files import batches, write_input
from tests.engine.test_chain import CHAIN, engine_in, here

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
    assert run.results("groups").num_rows > 0
    with pytest.raises(UsageError, match="my mistake"):
        run.stop()


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

    monkeypatch.setattr(engine_module, "OnSpark", lambda _: Watched(2))
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
