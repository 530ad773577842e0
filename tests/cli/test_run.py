"""`headrace run`: on Spark once and bounded; signals, errors of tasks and progress without it."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree
from socket import gethostname
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkRuntimeError
from rich.console import Console
from sqlglot import Token

from headrace.cli.background import BackgroundCall, stopped_by_signals
from headrace.cli.commands.init import FILES
from headrace.cli.commands.run import drive, open_run, report_rejected
from headrace.cli.job_file import read_job
from headrace.cli.jobs import build_engine, load_script
from headrace.cli.live import LINE_S, NewLines, line_of, short_duration, summarise, watching_run
from headrace.engine.progress import Progress, QueryProgress
from headrace.engine.sinks.sinks import ResultFolder
from headrace.model.errors import UsageError
from headrace.sql import ScriptReader, format_query
from headrace.storage.directory import prepare
from headrace.storage.ownership import Owner, check_free
from headrace.storage.records import StreamTotals
from tests.cli.command_line import CommandLine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.spark.engine import Engine


@pytest.fixture
def job(tmp_path: Path, trades: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "data").symlink_to(trades)
    return tmp_path / "job.toml"


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """All rows of a query; of several groups in one window in no order."""
    files = sorted(folder.glob("step-*.parquet"))
    return sorted((row for file in files for row in pq.read_table(file).to_pylist()), key=repr)


# On Spark


def test_bounded_answers_every_window(headrace: CommandLine, job: Path, trades: Path, spark: SparkSession) -> None:
    outcome = headrace("run", job, "--bounded")
    assert outcome.status == 0, outcome.err
    assert "2,000 rows" in outcome.err
    assert "all input read" in outcome.err
    assert "large_trades" in outcome.err
    assert f"results: {job.parent / 'results' / '<query>' / 'step-*.parquet'}" in outcome.err
    assert outcome.out == ""
    headrace("eval", job.parent / "queries.sql", "--data", trades, "--out", job.parent / "expected")
    for name in ("large_trades", "busiest", "movers"):
        expected = pq.read_table(job.parent / "expected" / f"{name}.parquet").to_pylist()
        assert rows_of(job.parent / "results" / name) == sorted(expected, key=repr)
    again = headrace("run", job, "--bounded")
    assert again.status == 0, again.err
    assert "ended in an earlier --bounded run" in again.err
    assert spark.sparkContext.defaultParallelism == 2, "the session goes on"


def test_once_stops_at_the_watermark_and_goes_on(headrace: CommandLine, job: Path, spark: SparkSession) -> None:
    """About six seconds of trades, 5 s of lateness: the watermark stops before the first window of a minute ends."""
    first = headrace("run", job, "--once")
    assert first.status == 0, first.err
    assert "2,000 rows" in first.err
    assert "watermark 2004-12-01T17:00:0" in first.err
    assert rows_of(job.parent / "results" / "busiest") == []
    second = headrace("run", job, "--bounded")
    assert second.status == 0, second.err
    assert "2,000 rows" in second.err
    assert len(rows_of(job.parent / "results" / "busiest")) == 3


def test_an_error_of_a_task_is_told_as_it_is(
    headrace: CommandLine, job: Path, trades: Path, spark: SparkSession
) -> None:
    """The end of the file, which the driver looks at, is whole; the pages, which tasks read, are not. The plan is made
    already: for that the driver would read rows itself.
    """
    (file,) = (trades / "Trades").glob("*.parquet")
    (job.parent / "data").unlink()
    copytree(trades, job.parent / "data")
    assert headrace("run", job, "--once").status == 0
    data = bytearray(file.read_bytes())
    data[4:400] = bytes(396)
    (job.parent / "data" / "Trades" / "bad.parquet").write_bytes(data)
    outcome = headrace("run", job, "--once")
    assert outcome.status == 1
    assert re.search(r"^error\[bad-file\]: .*bad.parquet: is damaged\n  = ", outcome.err, re.MULTILINE)
    for noise in ("Traceback", "java", "org.apache", "Py4J"):
        assert noise not in outcome.err
    assert (job.parent / "state" / "Trades" / "journal" / "000000003.json").exists(), "the step had begun"


# Without Spark


def test_mistakes_are_told_before_spark_starts(
    headrace: CommandLine, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.spark.session.session", lambda *_: pytest.fail("there was no need for a session"))
    assert "can't read" in headrace("run", job.parent / "none.toml").err
    assert headrace("run", job, "--once", "--bounded").status == 2
    (job.parent / "queries.sql").write_text("CREATE QUERY a AS SELECT sum(Vo) FROM Trades [RANGE '1 s'];")
    outcome = headrace("run", job)
    assert outcome.status == 1
    assert "no column 'Vo'" in outcome.err


def test_an_engine_has_what_the_job_says(job: Path) -> None:
    with job.open("a") as file:
        file.write('\n[[sinks]]\nkind = "console"\n')
    told = read_job(job)
    engine = build_engine(told, load_script(told), None, take_over=True)
    assert engine.options.take_over
    assert engine.options.quotas.queries == 1_000
    assert engine.options.on_bad_file == "stop"
    assert list(engine.queries) == ["large_trades", "busiest", "movers"]
    assert list(engine.feeds) == ["trades", "close", "index"]
    assert engine.folders == [ResultFolder(str(job.parent / "results"), "parquet")]
    assert len(engine.sinks) == 1


def test_each_statement_is_parsed_once(headrace: CommandLine, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def statement(reader: ScriptReader, tokens: list[Token]) -> Any:
        parsed.append(reader.text[tokens[0].start : tokens[-1].end])
        return parse(reader, tokens)

    def start(engine: Engine) -> None:
        engines.append(engine)
        raise UsageError("stop", "far enough")

    engines: list[Engine] = []
    parse = ScriptReader.statement
    (job.parent / "more.sql").write_text("CREATE QUERY more AS SELECT count(*) AS n FROM busiest [RANGE '1 minute'];")
    job.write_text(job.read_text().replace('queries = "queries.sql"', 'queries = ["queries.sql", "more.sql"]'))
    monkeypatch.setattr(ScriptReader, "statement", statement)
    monkeypatch.setattr("headrace.spark.session.session", lambda *_: nullcontext())
    monkeypatch.setattr("headrace.cli.commands.run.open_run", start)
    assert "far enough" in headrace("run", job).err
    assert len(parsed) == len(set(parsed)) == 3 + 4, "declarations and queries"
    (engine,) = engines
    assert [stream.name for stream in engine.catalog.derived] == ["busiest"]
    again = load_script(read_job(job))
    assert engine.queries == {named.name: (format_query(named.query), named.query) for named in again.queries}


def test_a_state_in_use_is_told_in_words_of_the_command_line() -> None:
    engine: Any = Mock()
    engine.run.side_effect = UsageError("state-in-use", "another engine runs", hint="take_over=True")
    with pytest.raises(UsageError, match="another engine runs") as problem:
        open_run(engine)
    assert "--take-over" in (problem.value.hint or "")


@pytest.fixture
def quiet() -> Console:
    return Console(file=io.StringIO(), width=80)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    assert {number: signal.getsignal(number) for number in before} == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("handlers")
def test_the_first_signal_lets_the_step_finish_and_the_second_does_not(number: signal.Signals, quiet: Console) -> None:
    stopping = threading.Event()
    stopped = stopped_by_signals(stopping, quiet, "stopping after this step")
    with pytest.raises(KeyboardInterrupt), stopped as asked:  # noqa: PT012 - both signals come inside
        signal.raise_signal(number)
        assert stopping.is_set()
        assert asked.is_set()
        assert "stopping after this step" in written(quiet)
        signal.raise_signal(number)


def test_what_the_thread_raises_is_raised_where_it_is_waited_for() -> None:
    def fail() -> None:
        raise UsageError("x", "it went wrong")

    work = BackgroundCall(fail)
    with pytest.raises(UsageError, match="it went wrong"):  # noqa: PT012 - it may take more than one wait
        while not work.wait(0.1):
            pass


# Progress

DAY_US = 86_400_000_000
PROGRESS = Progress(
    stream="Trades",
    step=12,
    totals=StreamTotals(rows=1_234_567, late=5, future=1, dropped=2, bad=3),
    rows_per_s=45_678.9,
    step_s=0.5,
    watermark=datetime(2004, 12, 1, 17, 0, 1, 250_000, tzinfo=UTC),
    lag=timedelta(seconds=1.5),
    windows=99,
    result_rows=100,
    queries={"a": QueryProgress(windows=99, rows=100, errors=7)},
    sharing=14.25,
    store_files=3,
    store_bytes=4_000,
    ended=False,
)


def test_a_line_tells_how_far_a_stream_is() -> None:
    assert line_of(PROGRESS) == (
        "Trades: step 12, 1 query, sharing 14.2x, 1,234,567 rows, 45,679 rows/s, watermark 2004-12-01T17:00:01Z, "
        "lag 1.5 s, 99 windows, late 5, dropped 2, future 1, bad 3"
    )
    young = replace(PROGRESS, watermark=None, lag=None, sharing=None)
    assert "no watermark yet" in line_of(young)
    assert "all input read" in line_of(replace(young, ended=True))
    assert "bad files 2" in line_of(replace(PROGRESS, totals=StreamTotals(quarantined=2)))


@pytest.mark.parametrize(
    ("duration_us", "expected"),
    [
        (0, "0.0 us"),
        (1_500_000, "1.5 s"),
        (90_000_000, "1.5 min"),
        (20 * 60_000_000, "20 min"),
        (-2_000, "-2.0 ms"),
        (DAY_US * 3 // 2, "36 h"),
        (2 * DAY_US, "2 days"),
        (8_020 * DAY_US, "8,020 days"),
    ],
)
def test_lags_are_told_in_one_unit(duration_us: int, expected: str) -> None:
    assert short_duration(duration_us) == expected


def test_elsewhere_than_on_a_terminal_there_is_a_line_now_and_then(quiet: Console) -> None:
    now = [0.0]
    show = NewLines(quiet, lambda: now[0])
    for second in range(20):
        now[0] = float(second)
        show([line_of(replace(PROGRESS, step=1 if second < 8 else 2))])
    assert [line.split(",")[0] for line in written(quiet).splitlines()] == ["Trades: step 1", "Trades: step 2"]
    assert LINE_S == 5.0


def test_a_terminal_is_refreshed_in_place() -> None:
    terminal = Console(file=io.StringIO(), width=80, force_terminal=True)
    with watching_run(terminal, in_place=True) as show:
        show([])
        show([PROGRESS])
    shown = written(terminal)
    assert "1,234,567 rows" in shown
    assert "\x1b[2K" in shown
    assert max(len(line) for line in shown.splitlines()) < 160


def test_the_summary_tells_what_came_of_each_query(quiet: Console) -> None:
    many = {f"q{number}": QueryProgress() for number in range(25)}
    summarise(quiet, [replace(PROGRESS, queries=many)], [ResultFolder("/results", "json")] * 2)
    shown = written(quiet)
    assert "... and 5 more queries" in shown
    assert shown.count("results: /results/<query>/step-*.json") == 1
    assert "left out" not in shown


def test_the_summary_tells_of_empty_windows_that_were_left_out(quiet: Console) -> None:
    states = {"a": QueryProgress(windows=1_002, rows=1_002, left_out=16_278), "b": QueryProgress()}
    summarise(quiet, [replace(PROGRESS, queries=states)], [])
    table = [line.split() for line in written(quiet).splitlines()]
    assert ["query", "windows", "rows", "row", "errors", "empty", "windows", "left", "out"] in table
    assert ["a", "1,002", "1,002", "0", "16,278"] in table
    assert ["b", "0", "0", "0", "0"] in table


def test_names_are_not_markup(quiet: Console) -> None:
    summarise(quiet, [replace(PROGRESS, stream="[red]x", queries={"[b]": QueryProgress()})], [])
    assert "[red]x" in written(quiet)
    assert "[b]" in written(quiet)


def test_names_can_not_steer_the_terminal(quiet: Console) -> None:
    named = replace(PROGRESS, stream="x\x1b[2J", queries={"\x1b[31mq": QueryProgress()})
    summarise(quiet, [named], [ResultFolder("/\x1b]0;title\x07", "json")])
    terminal = Console(file=io.StringIO(), width=80, force_terminal=True)
    with watching_run(terminal, in_place=True) as show:
        show([named])
    for shown in (written(quiet), written(terminal)):
        assert "x\N{REPLACEMENT CHARACTER}[2J" in shown
        assert "\x1b[2J" not in shown
    assert "\x1b" not in written(quiet)
    assert "\x07" not in written(quiet)


def test_files_that_changed_are_counted() -> None:
    assert "bad 0, changed files 2" in line_of(replace(PROGRESS, totals=StreamTotals(changed=2)))
    assert "changed" not in line_of(PROGRESS)


def test_before_the_first_step_it_is_told_what_takes_so_long(quiet: Console) -> None:
    with watching_run(quiet, in_place=False):
        assert written(quiet) == "reading the first files and making the plan\n"
    terminal = Console(file=io.StringIO(), width=80, force_terminal=True)
    with watching_run(terminal, in_place=True):
        assert "making the plan" in written(terminal)
    shown = written(quiet)
    with watching_run(quiet, in_place=False, is_first=False):
        assert written(quiet) == shown


# What needs no Spark is checked before it starts


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.spark.session.session", lambda *_: pytest.fail("there was no need for a session"))


@pytest.mark.usefixtures("no_session")
def test_a_missing_directory_is_named_with_its_key(headrace: CommandLine, job: Path) -> None:
    (job.parent / "data").unlink()
    outcome = headrace("run", job)
    assert outcome.status == 1
    assert f"{job}, [streams.Trades]: 'path' names {job.parent / 'data' / 'Trades'}" in outcome.err
    (job.parent / "data" / "Trades").mkdir(parents=True)
    assert "[tables.Close]: 'path' names" in headrace("run", job).err


@pytest.mark.usefixtures("no_session")
def test_a_port_in_use_is_told_at_once(headrace: CommandLine, job: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "127.0.0.1:{1}".format(*taken.getsockname())
        job.write_text(f'{job.read_text()}\n[edges]\nlisten = "{address}"\n')
        outcome = headrace("run", job)
    assert outcome.status == 1
    assert f"error[listen]: can't listen at {address}: Address already in use" in outcome.err


@pytest.mark.usefixtures("no_session")
def test_results_that_could_not_be_written_are_told_at_once(headrace: CommandLine, job: Path) -> None:
    (job.parent / "results").write_text("a file")
    outcome = headrace("run", job)
    assert outcome.status == 1
    assert f"error[state-write]: can't write {job.parent / 'results'}" in outcome.err
    assert "hint: is it a directory that you may write to?" in outcome.err
    (job.parent / "state").rmdir()
    (job.parent / "state").write_text("a file too")
    assert f"error[state-write]: can't write {job.parent / 'state'}" in headrace("run", job).err


@pytest.mark.usefixtures("no_session")
def test_who_owns_the_state_is_told(headrace: CommandLine, job: Path) -> None:
    directory = prepare(job.parent / "state" / "Trades", "")
    owner = Owner(directory)
    outcome = headrace("run", job)
    owner.close()
    assert outcome.status == 1
    assert f"another engine (process {os.getpid()} on {gethostname()}) runs on {directory.root}" in outcome.err
    assert "--take-over" in outcome.err
    check_free(directory.store)


@pytest.mark.usefixtures("no_session")
def test_an_owner_that_did_not_tell_its_name_is_in_the_way_all_the_same(tmp_path: Path) -> None:
    directory = prepare(tmp_path, "")
    owner = Owner(directory)
    (tmp_path / "epochs" / "000000001").write_text("17\n")
    with pytest.raises(UsageError, match=r"another engine \(process 17\) runs on"):
        check_free(directory.store)
    (tmp_path / "epochs" / "000000001").unlink()
    with pytest.raises(UsageError, match="another engine runs on"):
        Owner(directory)
    owner.close()


@pytest.mark.usefixtures("no_session")
def test_a_file_without_queries_is_told(headrace: CommandLine, job: Path) -> None:
    (job.parent / "queries.sql").write_text("-- none yet\n")
    (job.parent / "results").write_text("")
    assert "there is no query in " in headrace("run", job).err


def test_where_rejected_rows_are_is_told(tmp_path: Path, quiet: Console) -> None:
    report_rejected(quiet, str(tmp_path))
    assert written(quiet) == ""
    (tmp_path / "Trades" / "rejected").mkdir(parents=True)
    (tmp_path / "Trades" / "format.json").touch()
    (tmp_path / "Trades" / "rejected" / ".step-1.staged").touch()
    report_rejected(quiet, str(tmp_path))
    assert written(quiet) == ""
    (tmp_path / "Trades" / "rejected" / "step-1.parquet").touch()
    report_rejected(quiet, str(tmp_path))
    assert written(quiet).replace("\n", "") == f"rows that were not counted: {tmp_path}/Trades/rejected/*.parquet"


# A JVM that goes before us


def test_a_jvm_that_dies_during_the_start_is_no_bug_of_ours(
    headrace: CommandLine, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exited = PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")
    for problem in (ConnectionResetError(), PySparkRuntimeError("Answer from Java side is empty"), exited):
        monkeypatch.setattr("headrace.spark.session.session", Mock(side_effect=problem))
        outcome = headrace("run", job)
        assert outcome.status == 1
        assert "error[spark-lost]" in outcome.err
        assert "report it" not in outcome.err


@pytest.mark.usefixtures("handlers")
def test_a_jvm_that_is_stopped_with_us_ends_the_run_well(job: Path, quiet: Console) -> None:
    """As systemd does unless KillMode=mixed: the signal goes to both, and the step can't finish."""
    running: Any = Mock(stopping=threading.Event())

    def lost(_timeout_s: float) -> bool:
        signal.raise_signal(signal.SIGTERM)
        raise ConnectionRefusedError(111, "Connection refused")

    running.join = lost
    drive(running, read_job(job), None, quiet)
    assert "the step is done again at the next start" in written(quiet)
    running.join = Mock(side_effect=ConnectionRefusedError(111, "Connection refused"))
    with pytest.raises(ConnectionRefusedError):
        drive(running, read_job(job), None, quiet)


@pytest.mark.usefixtures("handlers")
def test_a_step_that_no_executor_runs_is_given_up(job: Path, quiet: Console) -> None:
    """The second look after the signal cancels it."""
    running: Any = Mock(stopping=threading.Event())
    running.progress.return_value = []
    idle: Any = Mock(is_cancelled=False)
    looks: list[float] = []

    def join(timeout_s: float) -> bool:
        looks.append(timeout_s)
        if len(looks) == 2:
            signal.raise_signal(signal.SIGTERM)
        if idle.cancel_if_idle.call_count == 2:
            idle.is_cancelled = True
            raise PySparkRuntimeError("Job 0 cancelled as part of cancellation of all jobs")
        return False

    running.join = join
    drive(running, read_job(job), None, quiet, idle)
    assert len(looks) == 4
    assert "since no executor runs the step: the step is done again at the next start" in written(quiet)
    running.close.assert_called()


def test_the_jvm_is_started_apart_from_our_process_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.spark import session as sessions

    launched = Mock()
    context = SimpleNamespace(_gateway=None, _ensure_initialized=Mock())
    monkeypatch.setattr(sessions, "SparkContext", context)
    monkeypatch.setattr(sessions, "launch_gateway", launched)
    monkeypatch.setattr(sessions, "SparkConf", Mock())
    monkeypatch.setattr(sessions, "check_java", Mock())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sessions.start_java({"spark.master": "local"})
    popen = launched.call_args.kwargs["popen_kwargs"]
    assert {key: popen[key] for key in popen if key != "stderr"} == {"start_new_session": True, "umask": 0o077}
    context._ensure_initialized.assert_called_once_with(gateway=launched.return_value)
    context._gateway = "one that runs"
    sessions.start_java({})
    assert launched.call_count == 1


@pytest.mark.jvm
@pytest.mark.slow
def test_a_signal_to_the_process_group_lets_the_step_finish(job: Path) -> None:
    """As `timeout` and a terminal send it."""
    child = subprocess.Popen(
        [sys.executable, "-m", "headrace", "run", str(job)], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert child.stderr is not None
    for line in child.stderr:
        if "making the plan" in line:
            break
    os.killpg(child.pid, signal.SIGTERM)
    _, told = child.communicate(timeout=120)
    assert child.returncode == 0, told
    assert "stopping after this step" in told
    assert "2,000 rows" in told
    assert "Spark was stopped too" not in told
