"""A job whose state is in an object store: the same results, one owner, also if the store is slow, fails or forgets to
answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import pyarrow as pa
import pytest

from headrace.engine.engine import LocalEngine
from headrace.engine.registry import answer_to, ask
from headrace.engine.step.stepper import Input, Stepper
from headrace.model.errors import UsageError
from headrace.storage import ownership
from headrace.storage.ownership import LostOwnershipError, Owner, check_free
from headrace.storage.store import known_store, open_store
from tests.engine.files import QUERIES, check_results, make_stepper, run_all, write_inputs
from tests.faults.s3 import BUCKET, Faults, proxy, s3_server, use_server

STEPS = 6
BEAT_S = 0.2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3") / "data") as address:
        yield address


@pytest.fixture
def faults(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    with proxy(server) as (address, faults):
        use_server(address, monkeypatch.setenv)
        known_store.cache_clear()
        yield faults
        known_store.cache_clear()


@pytest.fixture
def state(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(ownership, "BEAT_S", BEAT_S)
    monkeypatch.setattr(ownership, "WATCHED_S", 3 * BEAT_S)
    return f"s3://{BUCKET}/{uuid4().hex}/r"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_inputs(tmp_path, STEPS)


def test_results_are_those_of_the_reference(root: Path, state: str) -> None:
    run_all(root, state=state)
    check_results(root, STEPS)
    assert not (root / "state").exists()


def test_a_store_that_fails_and_loses_answers_changes_nothing(root: Path, state: str, faults: Faults) -> None:
    source = random.Random(7)

    def break_something(_: Stepper) -> None:
        faults.refuse, faults.lose = source.randrange(3), source.randrange(3)
        faults.delay_s = source.choice((0.0, 0.005))

    run_all(root, break_something, state=state)
    check_results(root, STEPS)


def test_a_step_that_was_begun_is_run_again(root: Path, state: str) -> None:
    for number in range(STEPS):
        stepper = make_stepper(root, state)
        journal = stepper.pending or stepper.begin(Input())
        assert journal is not None
        stepper.run(journal, None)
        stepper.close()
        stepper = make_stepper(root, state)
        assert stepper.pending is not None
        assert stepper.step(Input()) is not None
        assert stepper.number == number + 2
        stepper.close()
    run_all(root, state=state)
    theirs = {name for name in QUERIES if (root / "results" / name).exists()}
    assert theirs == set(QUERIES)


def test_a_second_engine_is_refused_while_the_first_lives(root: Path, state: str) -> None:
    first = make_stepper(root, state)
    for attempt in (lambda: make_stepper(root, state), lambda: check_free(open_store(state))):
        with pytest.raises(UsageError, match=r"another engine \(process \d+ on .*\) runs on s3://") as caught:
            attempt()
        assert caught.value.code == "state-in-use"
    first.close()
    with patch.object(ownership, "pause", side_effect=AssertionError("it has ended: there is nothing to wait for")):
        check_free(open_store(state))
        make_stepper(root, state).close()


def test_an_owner_that_died_is_not_waited_for_long(root: Path, state: str) -> None:
    dead = make_stepper(root, state)
    assert isinstance(dead.owner.sign, ownership.Heartbeat)
    dead.owner.sign.ended.set()
    check_free(open_store(state))
    with patch.object(ownership, "pause", side_effect=AssertionError("it is known to be dead")):
        run_all(root, state=state)
    check_results(root, STEPS)


def test_a_zombie_commits_nothing(root: Path, state: str) -> None:
    zombie = make_stepper(root, state)
    assert zombie.step(Input()) is not None
    journal = zombie.begin(Input())
    assert journal is not None
    ran = zombie.run(journal, None)
    run_all(root, state=state, take_over=True)
    with pytest.raises(LostOwnershipError):
        zombie.write_commit(zombie.build_commit(journal, ran))
    zombie.close()
    check_results(root, STEPS)


def test_of_engines_that_start_together_each_has_an_epoch_of_its_own(root: Path, state: str) -> None:
    stepper = make_stepper(root, state)
    stepper.close()
    directory = stepper.directory
    owners = [Owner(directory, take_over=True) for _ in range(3)]
    assert len({owner.epoch for owner in owners}) == 3
    owners[-1].check_held()
    with pytest.raises(LostOwnershipError):
        owners[0].check_held()
    for owner in owners:
        owner.close()


def test_requests_are_taken_and_answered(root: Path, state: str) -> None:
    stepper = make_stepper(root, state)
    added = ask(stepper.directory, "add", "more", "SELECT count(*) AS n FROM r [RANGE '3 s']")
    wrong = ask(stepper.directory, "add", "wrong", "SELECT")
    assert stepper.step(Input()) is not None
    assert answer_to(stepper.directory, added) is not None
    assert (answer_to(stepper.directory, wrong) or {}).get("refused")
    assert answer_to(stepper.directory, added) is None
    stepper.close()


def test_an_engine_over_a_store_resumes_and_chains_queries(root: Path, state: str) -> None:
    def run_engine() -> pa.Table:
        engine = LocalEngine(state.removesuffix("/r"))
        engine.declare("CREATE STREAM r (t TIMESTAMP, k STRING, v BIGINT, x DOUBLE) EVENT TIME t LATENESS '2 s'")
        engine.stream("r", root / "input")
        engine.add("counts", "SELECT k, count(*) AS n FROM r [RANGE '4 s'] GROUP BY k")
        engine.add("totals", "SELECT sum(n) AS n FROM counts [RANGE '8 s']")
        engine.sink("parquet", path=root / "results")
        with engine.bounded() as run:
            return run.results("totals")

    first = run_engine()
    assert first.num_rows
    assert sum(first["n"].to_pylist()) == STEPS * 12 - late_rows(root)
    assert run_engine() == first


def late_rows(root: Path) -> int:
    """Rows that no open window could take, counted by the same job over a directory."""
    engine = LocalEngine(root / "other")
    engine.declare("CREATE STREAM r (t TIMESTAMP, k STRING, v BIGINT, x DOUBLE) EVENT TIME t LATENESS '2 s'")
    engine.stream("r", root / "input")
    engine.add("counts", "SELECT k, count(*) AS n FROM r [RANGE '4 s'] GROUP BY k")
    with engine.bounded() as run:
        return STEPS * 12 - int(sum(run.results("counts")["n"].to_pylist()))


def test_results_need_a_folder(root: Path, state: str) -> None:
    engine = LocalEngine(state.removesuffix("/r"))
    engine.declare("CREATE STREAM r (t TIMESTAMP, k STRING, v BIGINT, x DOUBLE) EVENT TIME t LATENESS '2 s'")
    engine.stream("r", root / "input")
    engine.add("counts", "SELECT count(*) AS n FROM r [RANGE '4 s']")
    with pytest.raises(UsageError, match="say where the results go"):
        engine.run()
