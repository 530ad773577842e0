"""Short forms of the chaos suite; `make chaos` runs the long one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.faults.chaos import Suite, main, open_suite, report, run_suite, schedule
from tests.faults.in_process import BEAT
from tests.faults.job import Comparison
from tests.faults.s3 import BUCKET, s3_server, use_server


def check_suite(suite: Suite, rounds: int) -> dict[str, int]:
    """Run it to the end: nothing differs, and nothing is missing."""
    figures, found = run_suite(suite)
    assert (found.differences, found.missing) == ([], [])
    assert figures["rounds"] == rounds == sum(figures["kills"].values())
    assert figures["windows"] > 0
    kills: dict[str, int] = figures["kills"]
    return kills


def test_an_engine_is_killed_and_its_results_are_those_of_duckdb(tmp_path: Path) -> None:
    check_suite(open_suite(tmp_path, 3, 2, in_process=True), 3)


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A place in an object store. Its owners are killed, and never two at once: there is little to wait for."""
    with s3_server(tmp_path_factory.mktemp("s3") / "data") as address:
        use_server(address, monkeypatch.setenv)
        monkeypatch.setenv(BEAT, "0.2:0.5")
        yield f"s3://{BUCKET}/{uuid4().hex}"


@pytest.mark.parametrize("rounds", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_an_engine_over_a_store_is_killed(tmp_path: Path, store: str, rounds: int) -> None:
    check_suite(open_suite(tmp_path, rounds, 3, in_process=True, state=store), rounds)


def test_a_suite_that_was_interrupted_is_resumed(tmp_path: Path) -> None:
    """It left a run behind, which is ended; its rounds so far count."""
    first = open_suite(tmp_path, 1, 4, in_process=True)
    first.run_rounds()
    left = first.start()
    second = open_suite(tmp_path, 2, 4, resume=True, in_process=True)
    assert left.wait() == -9
    first.close()
    assert second.progress.done == 1
    assert second.watcher.sights == first.watcher.sights
    check_suite(second, 2)


def test_a_folder_with_a_suite_is_not_begun_again(tmp_path: Path) -> None:
    open_suite(tmp_path, 1, 4).save()
    with pytest.raises(AssertionError, match="--resume, or another folder"):
        open_suite(tmp_path, 1, 4)
    with pytest.raises(SystemExit):
        main(["--resume"])


def test_the_long_form_kills_every_target_often() -> None:
    """A kill of the driver or the JVM costs a start, so there are fewer of them."""
    for seed in range(5):
        kills = Counter(schedule(200, seed, in_process=False))
        assert min(kills[target] for target in ("driver", "jvm", "worker")) >= 30
        assert kills.total() == 200
    assert schedule(50, 1, in_process=False) == schedule(50, 1, in_process=False) != schedule(50, 2, in_process=False)


def test_the_figures_have_their_names(tmp_path: Path) -> None:
    found = Comparison(rows=5, windows=4, differences=["x"], missing=["y", "z"])
    assert report(open_suite(tmp_path, 1, 4).progress, found) == {
        "rounds": 0,
        "kills": {"driver": 0, "jvm": 0, "worker": 0},
        "rows": 5,
        "windows": 4,
        "differences": 1,
        "missing_windows": 2,
    }


@pytest.mark.jvm
@pytest.mark.slow
def test_an_engine_on_spark_is_killed_again_and_again(tmp_path: Path) -> None:
    kills = check_suite(open_suite(tmp_path, 12, 5), 12)
    assert all(kills.values()), kills
