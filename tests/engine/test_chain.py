"""Streams of results in the engine: what one query closes another reads, in the same round, once, whatever happens.

Most of it runs in this process; what Spark adds is shown at the end. What is expected is the reference's answer over
the reference's answers.

python -m tests.engine.test_chain ROOT WHEN OPERATION PART NTH: a child that dies at a point, as in `dying`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace
from headrace.engine.run import Run
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Stepper
from headrace.model.errors import HeadraceError, UsageError
from headrace.spark import engine as engine_module
from headrace.spark.engine import Engine
from headrace.sql import parse_script
from headrace.storage.directory import Directory
from headrace.testing import assert_same_rows
from tests.engine import dying
from tests.engine.files import SCHEMA, batches, write_input
from tests.engine.test_chained_dataframes import by_reference, in_any_order, parsed_chain, plain_rows
from tests.spark.test_engine import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]

COLUMNS = "(t TIMESTAMP, k STRING, v BIGINT, x DOUBLE)"
DECLARATIONS = "\n".join(f"CREATE STREAM {name} {COLUMNS} EVENT TIME t LATENESS '2 s' SKEW '1 h';" for name in "rs")
SECOND_US = 1_000_000
STEPS = 6
PATIENCE_S = 20.0

GROUPS = "SELECT k, count(*) AS n, sum(v) AS v FROM r [RANGE '4 s'] GROUP BY k"
OTHERS = "SELECT k, max(v) AS top FROM s [RANGE '4 s'] GROUP BY k"
JOINED = "SELECT k, max(n) AS n, max(top) AS top FROM groups JOIN others USING (k) GROUP BY k"
SMOOTH = "SELECT k, sum(n) AS n, median(v) AS v FROM groups [RANGE '8 s' SLIDE '4 s'] GROUP BY k"
CHAIN = {
    "groups": GROUPS,
    "others": OTHERS,
    "counts": "SELECT count(*) AS n FROM r [RANGE '3 s' SLIDE '2 s']",
    "smooth": SMOOTH,
    "longest": "SELECT max(n) AS n FROM counts [RANGE '6 s']",
    "peaks": "SELECT max(n) AS n, count(*) AS k FROM smooth",
    "joined": JOINED,
    "best": "SELECT k, n FROM joined GROUP BY k, n ORDER BY n DESC LIMIT 1",
}
"""
r --> groups --> smooth --> peaks
  |          `-> joined --> best
  |              ^
s --> others ----'
r --> counts --> longest
"""


# An engine in this process


@contextmanager
def without_spark() -> Iterator[None]:
    """The tasks run here, and nothing loses its power."""
    with (
        patch.object(engine_module, "SparkRunner", lambda _: InProcess(2)),
        patch.object(engine_module, "report_missing_settings", lambda _: None),
        patch("os.fsync"),
    ):
        yield


@pytest.fixture
def here() -> Iterator[None]:
    with without_spark():
        yield


def engine_in(root: Path, asked: Mapping[str, str], spark: Any = None, **options: Any) -> Engine:
    made = Engine(spark, root / "state", **{"reducers": 2, "step_bytes": 1, **options})
    made.declare(DECLARATIONS)
    for name in "rs":
        (root / name).mkdir(exist_ok=True)
        made.stream(name, root / name)
    for name, sql in asked.items():
        made.add(name, sql)
    return made


def steps(run: Run, clock_us: int | None = None) -> None:
    """Rounds, until there is nothing to do."""
    while one_round(run, clock_us):
        pass


def one_round(run: Run, clock_us: int | None = None) -> bool:
    run.discover()
    commits = [pipeline.tick(clock_us) for pipeline in run.pipelines]
    return any(commit is not None for commit in commits)


def meanwhile(run: Run, request: Callable[[], Any]) -> Any:
    """A request from another thread while there are rounds; its answer, or what it raised."""
    told: list[Any] = []

    def ask() -> None:
        try:
            told.append(request())
        except HeadraceError as problem:
            told.append(problem)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    until = time.monotonic() + PATIENCE_S
    while asking.is_alive():
        assert time.monotonic() < until, "no answer came"
        one_round(run)
        asking.join(0.005)
    if isinstance(told[0], HeadraceError):
        raise told[0]
    return told[0]


def stepper_of(run: Run, stream: str) -> Stepper:
    return next(each.stepper for each in run.pipelines if each.place == stream)


def derived(run: Run, name: str) -> Any:
    """The last commit of a stream of results, of queries that join no others to it if there are any."""
    found = [each for each in run.pipelines if each.stream.name == name]
    return min(found, key=lambda pipeline: len(pipeline.place)).stepper.commit


def row(second: float, key: str = "a", value: int = 1) -> Row:
    return {"t": round(second * SECOND_US), "k": key, "v": value, "x": 0.5}


def ends_of(run: Run, query: str) -> list[int]:
    """Where the windows of the rows end, in seconds."""
    return [round(end.timestamp()) for end in run.results(query)["window_end"].to_pylist()]


def check_chain(
    run: Run, asked: Mapping[str, str], given_batches: Mapping[str, Sequence[Sequence[Row]]], *, only: str | None = None
) -> None:
    """Every row of every query once, and no other."""
    catalog = parse_script(DECLARATIONS).catalog
    theirs = by_reference(asked, catalog, given_batches)
    _, queries = parsed_chain(asked, catalog)
    for name in [only] if only else asked:
        ours = plain_rows(run.results(name), queries[name])
        assert in_any_order(ours) == in_any_order(theirs[name]), name


def two_streams(count: int = STEPS, seed: int = 3) -> dict[str, list[list[Row]]]:
    return {"r": batches(count, seed), "s": batches(count, seed + 1)}


def write_all(root: Path, given_batches: Mapping[str, Sequence[list[Row]]]) -> None:
    for name, of_stream in given_batches.items():
        for number, rows in enumerate(of_stream):
            write_input(root / name, rows, number)


# Chains to the end


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.lists(st.sampled_from("rs..!?"), max_size=24))
def test_files_in_any_order_rounds_and_restarts_do_not_matter(seed: int, reducers: int, events: list[str]) -> None:
    """A file comes to r or s, there is a round, or the engine stops and another one starts, with or without naming the
    queries.
    """
    given_batches = two_streams(4, seed)
    waiting = {name: list(enumerate(rows)) for name, rows in given_batches.items()}
    with TemporaryDirectory() as temporary, without_spark():
        root = Path(temporary)
        run = engine_in(root, CHAIN, reducers=reducers).run()
        for each in events:
            if each == ".":
                one_round(run)
            elif each in "!?":
                is_begun = run.pipelines[0].stepper.commit is not None
                run.stop()
                run = engine_in(root, {} if each == "?" and is_begun else CHAIN).run()
            elif waiting[each]:
                number, rows = waiting[each].pop(0)
                write_input(root / each, rows, number)
        run.stop()
        for name, left in waiting.items():
            for number, rows in left:
                write_input(root / name, rows, number)
        with engine_in(root, CHAIN).bounded() as ended:
            check_chain(ended, CHAIN, given_batches)
            assert derived(ended, "groups").totals.late == 0


@pytest.mark.usefixtures("here")
def test_once_and_once_more(tmp_path: Path) -> None:
    given_batches = two_streams()
    for number in range(STEPS):
        for name, of_stream in given_batches.items():
            write_input(tmp_path / name, of_stream[number], number)
        engine_in(tmp_path, CHAIN if number == 0 else {}).once().stop()
    with engine_in(tmp_path, {}).bounded() as run:
        check_chain(run, CHAIN, given_batches)


@pytest.mark.usefixtures("here")
def test_what_is_joined_may_have_come_a_longer_way(tmp_path: Path) -> None:
    """`again` needs two steps to be known, `long` reads what is known after one."""
    asked = {
        "groups": GROUPS,
        "other": "SELECT k, max(v) AS top FROM r [RANGE '4 s'] GROUP BY k",
        "again": "SELECT k, max(top) AS top FROM other GROUP BY k",
        "long": "SELECT k, max(n) AS n, max(top) AS top FROM groups JOIN again USING (k) GROUP BY k",
    }
    write_all(tmp_path, {"r": batches(STEPS)})
    with engine_in(tmp_path, asked).bounded() as run:
        check_chain(run, asked, {"r": batches(STEPS)})


@pytest.mark.usefixtures("here")
def test_results_are_joined_with_their_own_totals(tmp_path: Path) -> None:
    asked = {
        "groups": GROUPS,
        "total": "SELECT sum(n) AS n FROM groups",
        "share": "SELECT k, max(100 * groups.n / total.n) AS share FROM groups JOIN total GROUP BY k",
    }
    write_all(tmp_path, {"r": batches(STEPS)})
    with engine_in(tmp_path, asked).bounded() as run:
        check_chain(run, asked, {"r": batches(STEPS)})


# Time


@pytest.mark.usefixtures("here")
def test_results_enter_what_reads_them_in_the_same_round(tmp_path: Path) -> None:
    """In topological order: peaks reads smooth, which reads groups."""
    asked = {name: CHAIN[name] for name in ("groups", "smooth", "peaks")}
    run = engine_in(tmp_path, asked, step_bytes=1 << 30).run()
    assert [pipeline.stream.name for pipeline in run.pipelines] == ["r", "s", "groups", "smooth"]
    for number, rows in enumerate(batches(STEPS)):
        write_input(tmp_path / "r", rows, number)
        while one_round(run):
            for name in ("groups", "smooth"):
                assert derived(run, name).totals.rows == run.results(name).num_rows
    assert run.results("peaks").num_rows > 0
    run.stop()


@pytest.mark.usefixtures("here")
def test_the_watermark_of_results_is_how_far_the_windows_are_closed(tmp_path: Path) -> None:
    write_all(tmp_path, {"r": batches(STEPS)})
    run = engine_in(tmp_path, {"groups": GROUPS, "smooth": SMOOTH}).run()
    steps(run)
    base, results = stepper_of(run, "r").commit, derived(run, "groups")
    assert base is not None
    assert results.watermark_us == results.closed_us == base.closed_us
    assert max(ends_of(run, "smooth")) == results.closed_us // (4 * SECOND_US) * 4, "all that can be closed is"
    run.stop()


@pytest.mark.usefixtures("here")
def test_empty_windows_come_late_and_are_no_late_rows(tmp_path: Path) -> None:
    """
    0    10   20   30   40   50
    |a---|----|----|----|a---|a   the windows from 10 to 40 are closed with the first, and shown with the last
    """
    asked = {
        "counts": "SELECT count(*) AS n FROM r [RANGE '10 s']",
        "least": "SELECT min(n) AS n FROM counts",
        "pairs": "SELECT sum(n) AS n, count(*) AS rows FROM counts [RANGE '15 s']",
    }
    given_batches = [[row(5)], [row(43)], [row(53)]]
    run = engine_in(tmp_path, asked).run()
    for number, rows in enumerate(given_batches):
        write_input(tmp_path / "r", rows, number)
        steps(run)
    assert ends_of(run, "counts") == ends_of(run, "least") == [10, 20, 30, 40, 50]
    assert ends_of(run, "pairs") == [15, 30, 45]
    assert derived(run, "counts").totals.late == 0
    run.stop()
    with engine_in(tmp_path, {}).bounded() as ended:
        check_chain(ended, asked, {"r": given_batches})


@pytest.mark.usefixtures("here")
def test_results_ahead_of_the_clock_are_read(tmp_path: Path) -> None:
    """The stream allows rows of an hour ahead, and so may windows be that end after the clock."""
    asked = {"counts": "SELECT count(*) AS n FROM r [RANGE '600 s']", "sums": "SELECT sum(n) AS n FROM counts"}
    run = engine_in(tmp_path, asked).run()
    for number, second in enumerate((5, 700, 1400, 2000)):
        write_input(tmp_path / "r", [row(second)], number)
        steps(run, clock_us=0)
    assert ends_of(run, "sums") == ends_of(run, "counts") == [600, 1200, 1800]
    assert derived(run, "counts").totals.future == 0
    run.stop()


# Joins of two streams


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("ahead", ["r", "s"])
def test_a_join_waits_for_the_slower_stream(ahead: str, tmp_path: Path) -> None:
    """One stream is always two files ahead; the join is as far as the other."""
    given_batches = two_streams(8)
    behind = "s" if ahead == "r" else "r"
    asked = {"groups": GROUPS, "others": OTHERS, "joined": JOINED}
    run = engine_in(tmp_path, asked).run()
    for number in range(8):
        write_input(tmp_path / ahead, given_batches[ahead][number], number)
        if number >= 2:
            write_input(tmp_path / behind, given_batches[behind][number - 2], number - 2)
        steps(run)
    slower = stepper_of(run, behind).commit
    assert slower is not None
    assert slower.closed_us is not None
    shown = ends_of(run, "joined")
    assert max(shown, default=0) == slower.closed_us // (4 * SECOND_US) * 4, f"{behind} is closed up to there"
    for number in (6, 7):
        write_input(tmp_path / behind, given_batches[behind][number], number)
    run.stop()
    with engine_in(tmp_path, {}).bounded() as ended:
        check_chain(ended, asked, given_batches)


@pytest.mark.usefixtures("here")
def test_one_step_of_the_joined_query_closes_two_windows(tmp_path: Path) -> None:
    """
    s  |a b c ... h-|a-----------|----a   both windows are closed in one step; only one reducer has rows in the second
    r  |a b c ... h-|a b c ... h-|----a   they are closed one after the other
    """
    keys = "abcdefgh"
    asked = {
        "groups": GROUPS.replace("4 s", "10 s"),
        "others": OTHERS.replace("4 s", "10 s"),
        "joined": JOINED.replace("JOIN", "LEFT JOIN"),
    }
    first, second = [row(5, key) for key in keys], [row(15, key) for key in keys]
    for alone in keys:
        root = tmp_path / alone
        root.mkdir()
        given_batches = {"r": [[*first, row(13)], [*second, row(31)]], "s": [[*first, row(15, alone), row(31)]]}
        run = engine_in(root, asked).run()
        write_input(root / "s", given_batches["s"][0], 0)
        for number, rows in enumerate(given_batches["r"]):
            write_input(root / "r", rows, number)
            steps(run)
        assert ends_of(run, "joined").count(20) == len(keys)
        run.stop()
        with engine_in(root, {}).bounded() as ended:
            check_chain(ended, asked, given_batches)


# Queries come and go


def begun(root: Path, asked: Mapping[str, str], **options: Any) -> Run:
    """A run that has taken half of the files of r."""
    run = engine_in(root, asked, **options).run()
    for number in range(STEPS // 2):
        write_input(root / "r", batches(STEPS)[number], number)
        steps(run)
    return run


def write_rest(root: Path, run: Run) -> None:
    for number in range(STEPS // 2, STEPS):
        write_input(root / "r", batches(STEPS)[number], number)
        steps(run)


def check_late(run: Run, asked: Mapping[str, str], name: str, since: int, count: int = STEPS) -> None:
    """No row that the reference does not have, and all of windows that begin after the second, once."""
    catalog = parse_script(DECLARATIONS).catalog
    theirs: list[Any] = by_reference(asked, catalog, {"r": batches(count)})[name]
    ours: list[Any] = plain_rows(run.results(name), parsed_chain(asked, catalog)[1][name])
    assert not set(in_any_order(ours)) - set(in_any_order(theirs))
    expected = [each for each in theirs if each[0] >= since * SECOND_US]
    assert expected
    assert in_any_order([each for each in ours if each[0] >= since * SECOND_US]) == in_any_order(expected)


ALSO = "SELECT k, max(v) AS top FROM r [RANGE '4 s'] GROUP BY k"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("sql", [SMOOTH, JOINED], ids=["alone", "joined"])
def test_a_query_added_meanwhile_begins_with_the_results_of_later_steps(sql: str, tmp_path: Path) -> None:
    """It has whole windows only, and all of them from the first on; also after a restart that does not name it."""
    asked = {"groups": GROUPS, "others": ALSO}
    run = begun(tmp_path, asked)
    before = max(ends_of(run, "groups"))
    told = meanwhile(run, lambda: run.add("late", sql))
    assert told["version"] == 1
    write_rest(tmp_path, run)
    run.stop()
    with engine_in(tmp_path, {}).bounded() as ended:
        check_late(ended, {**asked, "late": sql}, "late", before)


@pytest.mark.usefixtures("here")
def test_a_query_that_others_read_stays(tmp_path: Path) -> None:
    run = begun(tmp_path, {"groups": GROUPS, "others": ALSO, "smooth": SMOOTH, "joined": JOINED})
    requests: dict[str, Callable[[], Any]] = {
        "smooth, joined reads the results of 'groups'": lambda: run.drop("groups"),
        "joined reads the results of 'others'": lambda: run.drop("others"),
    }
    for message, request in requests.items():
        with pytest.raises(UsageError, match=message):
            meanwhile(run, request)
    with pytest.raises(UsageError, match="smooth, joined reads the results of 'groups'"):
        meanwhile(run, lambda: run.replace("groups", f"{GROUPS} HAVING count(*) > 1"))
    for name in ("smooth", "joined", "groups"):
        meanwhile(run, partial(run.drop, name))
    write_rest(tmp_path, run)
    assert list(run.chain.queries()) == ["others"]
    run.stop()


@pytest.mark.usefixtures("here")
def test_a_name_is_taken_once_whatever_the_stream(tmp_path: Path) -> None:
    """Or two queries would have one folder of results, and one might read itself by way of another."""
    run = begun(tmp_path, {"groups": GROUPS, "smooth": SMOOTH})
    for name, sql in (
        ("smooth", "SELECT count(*) AS n FROM r [RANGE '4 s']"),
        ("groups", "SELECT k, sum(n) AS n FROM smooth GROUP BY k"),
    ):
        with pytest.raises(UsageError, match=f"there is a query '{name}' already"):
            meanwhile(run, partial(run.add, name, sql))
    run.stop()


@pytest.mark.usefixtures("here")
def test_a_name_may_stand_for_other_results_when_nobody_reads_it(tmp_path: Path) -> None:
    assert read_other_results(tmp_path).num_rows > 0


def read_other_results(tmp_path: Path) -> pa.Table:
    """Let a name stand for other results. The engine starts again, and the new results can be read."""
    run = begun(tmp_path, {"groups": GROUPS, "smooth": SMOOTH})
    for name in ("smooth", "groups"):
        meanwhile(run, partial(run.drop, name))
    meanwhile(run, lambda: run.add("groups", "SELECT v, count(*) AS c FROM r [RANGE '4 s'] GROUP BY v"))
    steps(run)
    run.stop()
    run = engine_in(tmp_path, {}).run()
    meanwhile(run, lambda: run.add("counts", "SELECT sum(c) AS c FROM groups"))
    write_rest(tmp_path, run)
    results = run.results("counts")
    run.stop()
    return results


@pytest.mark.usefixtures("here")
def test_a_request_does_not_delete_a_state_that_the_run_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of the old results is deleted by the thread of the request, while the run looks for readers."""
    steps_of = Directory.steps

    def slow_steps(directory: Directory) -> list[int]:
        listed = steps_of(directory)
        time.sleep(0.05)  # so that what was listed may be gone when it is read
        return listed

    monkeypatch.setattr(Directory, "steps", slow_steps)
    assert read_other_results(tmp_path).num_rows > 0


@pytest.mark.usefixtures("here")
def test_results_of_a_query_that_had_the_name_before_are_not_joined(tmp_path: Path) -> None:
    """They had another type, and are still in the folder. The stop is between the step that reads a file and the one
    that closes windows, so that the first step of the join has rows.
    """
    run = begun(tmp_path, {"groups": GROUPS, "others": ALSO})
    other = "SELECT k, upper(max(k)) AS top FROM r [RANGE '4 s'] GROUP BY k"
    meanwhile(run, lambda: run.replace("others", other))
    write_input(tmp_path / "r", batches(STEPS)[3], 3)
    one_round(run)
    run.stop()
    run = engine_in(tmp_path, {"groups": GROUPS, "others": other, "joined": JOINED}).run()
    one_round(run)
    assert derived(run, "groups").totals.rows > 0
    run.stop()
    write_input(tmp_path / "r", batches(STEPS)[4], 4)
    with engine_in(tmp_path, {}).bounded() as ended:
        rows = ended.results("joined").to_pylist()
    assert rows
    assert all(each["top"] == each["k"].upper() for each in rows)


@pytest.mark.usefixtures("here")
def test_results_can_be_read_whatever_the_sinks_are(tmp_path: Path) -> None:
    engine = engine_in(tmp_path, {"groups": GROUPS, "smooth": SMOOTH})
    engine.sink("json", path=tmp_path / "lines")
    given_batches = two_streams()
    write_all(tmp_path, given_batches)
    with engine.bounded() as run:
        check_chain(run, {"groups": GROUPS, "smooth": SMOOTH}, given_batches)
    assert list((tmp_path / "lines" / "smooth").glob("*.json"))


# Children that die


def run_chain(root: Path) -> None:
    """Every file a step of its own, and everything to the end."""
    with without_spark(), engine_in(root, CHAIN).bounded():
        pass


POINTS = {
    "after the journal of a reader": ("after", "create", "groups/journal/", 3),
    "before the results that are read are delivered": ("after", "create", "state/r/commits/", 4),
    "while the results that are read are written for people": ("after", "rename", "/.staged/", 3),
    "before the commit of a reader": ("before", "create", "groups/commits/", 2),
    "in the tables of a join": ("", "half", "groups+others/tables/", 1),
    "in the state of the next reader": ("before", "create", "smooth/journal/", 2),
}


@pytest.mark.parametrize("point", POINTS)
def test_a_child_dies_at_a_point(point: str, tmp_path: Path) -> None:
    given_batches = two_streams()
    write_all(tmp_path, given_batches)
    words = [str(tmp_path), *map(str, POINTS[point])]
    child = subprocess.run(
        [sys.executable, "-m", "tests.engine.test_chain", *words],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": f".{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    with without_spark(), engine_in(tmp_path, CHAIN).bounded() as run:
        check_chain(run, CHAIN, given_batches)


# On Spark


def test_a_chain_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    given_batches = {name: [[row for batch in of_stream for row in batch]] for name, of_stream in two_streams().items()}
    write_all(tmp_path, given_batches)
    asked = {name: CHAIN[name] for name in ("groups", "others", "joined", "best")}
    with engine_in(tmp_path, asked, spark, step_bytes=1 << 30).bounded() as run:
        check_chain(run, asked, given_batches)


def test_a_chain_grows_while_a_run_goes_on_and_goes_on_after_a_stop(spark: SparkSession, tmp_path: Path) -> None:
    rows = batches(4)
    sql = "SELECT k, max(n) AS n FROM groups GROUP BY k"
    with engine_in(tmp_path, {"groups": GROUPS}, spark).start(trigger="20 ms") as run:
        write_input(tmp_path / "r", rows[0], 0)
        wait_for(lambda: run.progress() and run.progress()[0].totals.rows == 12)
        run.add("most", sql)
        before = max(ends_of(run, "groups"), default=-4)
        with pytest.raises(UsageError, match="most reads the results of 'groups'"):
            run.drop("groups")
        for number in (1, 2):
            write_input(tmp_path / "r", rows[number], number)
        wait_for(lambda: run.results("most").num_rows > 0)
    write_input(tmp_path / "r", rows[3], 3)
    with engine_in(tmp_path, {}, spark).bounded() as run:
        check_late(run, {"groups": GROUPS, "most": sql}, "most", before, 4)


def test_a_chain_over_a_streaming_frame(spark: SparkSession, tmp_path: Path) -> None:
    """Structured Streaming drives the first link, the run itself the second."""
    rows = batches(3)
    (tmp_path / "r").mkdir()
    frame = (
        spark.readStream.schema("t timestamp, k string, v long, x double")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "r"))
    )
    engine = Engine(spark, tmp_path / "state", reducers=2)
    engine.stream("r", frame, event_time="t", lateness="2 s")
    engine.add("groups", GROUPS)
    engine.add("sums", "SELECT sum(n) AS n, count(*) AS groups FROM groups")
    for number in range(3):
        write_input(tmp_path / "r", rows[number], number)
    with engine.start(trigger="20 ms") as run:
        wait_for(lambda: run.progress() and run.progress()[0].totals.rows == 12 * 3)
        closed = max(ends_of(run, "groups"))
        wait_for(lambda: max(ends_of(run, "sums"), default=0) >= closed)
        shown = run.results("groups").group_by("window_end").aggregate([("n", "sum"), ([], "count_all")])
        expected = {each["window_end"]: (each["n_sum"], each["count_all"]) for each in shown.to_pylist()}
        for each in run.results("sums").to_pylist():
            if each["window_end"] in expected:
                assert (each["n"], each["groups"]) == expected[each["window_end"]]


def test_aggregate_of_a_chain_over_a_frame_of_spark(spark: SparkSession) -> None:
    table = pa.Table.from_pylist([row for batch in batches(2) for row in batch], schema=SCHEMA)
    asked = {"groups": GROUPS, "smooth": SMOOTH}
    here = headrace.aggregate(table, asked, name="r")
    there = headrace.aggregate(spark.createDataFrame(table), asked, name="r")
    for name in asked:
        assert_same_rows(there[name].toArrow(), here[name])


if __name__ == "__main__":
    with patch.object(dying, "run_all", run_chain):
        dying.main(*sys.argv[1:])
