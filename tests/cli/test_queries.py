"""`headrace queries` and `headrace tables`, against a state whose steps run in this process."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfile
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from headrace.cli.commands.init import FILES
from headrace.cli.commands.queries import Listed, table_of
from headrace.cli.job_file import read_job
from headrace.cli.jobs import load_catalog, load_script
from headrace.engine.registry import requests
from headrace.engine.sinks.sinks import ResultFolder
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input, Stepper
from headrace.model.query_names import QUERY_NAME_HINT
from headrace.sql import format_query, format_stream
from headrace.storage.directory import open_directory, prepare
from tests.cli.command_line import CommandLine
from tests.engine.file_stepper import FileStepper

VOLUME = "SELECT sum(Vol) AS volume FROM Trades [RANGE '2 s']"


@pytest.fixture
def job(tmp_path: Path, trades: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "data").mkdir()
    for name in ("Close", "Index"):
        (tmp_path / "data" / name).symlink_to(trades / name)
    (tmp_path / "data" / "Trades").mkdir()
    return tmp_path / "job.toml"


@pytest.fixture
def stepper(job: Path) -> Iterator[Stepper]:
    """The engine of the job after nothing but its first step, which has no rows."""
    told = read_job(job)
    script = load_script(told)
    stream = script.catalog.streams[0]
    directory = prepare(f"{told.state}/{stream.name}", format_stream(stream))
    folders = (ResultFolder(str(job.parent / "results"), "parquet"),)
    setting = StreamSetting(uuid4().hex, str(directory.root), script.catalog, stream.name, told.streams["trades"])
    made = FileStepper(setting, InProcess(), folders, reducers=2)
    made.changes.register({named.name: (format_query(named.query), named.query) for named in script.queries[:1]})
    made.step(Input())
    yield made
    made.close()


@pytest.fixture
def running(stepper: Stepper, monkeypatch: pytest.MonkeyPatch) -> Stepper:
    """The same, with a step whenever a command waits."""

    def step(_seconds: float) -> None:
        stepper.step(Input())

    monkeypatch.setattr("headrace.engine.registry.pause", step)
    return stepper


def add_rows(job: Path, trades: Path) -> None:
    (file,) = (trades / "Trades").glob("*.parquet")
    copyfile(file, job.parent / "data" / "Trades" / "part-0.parquet")


def listed(headrace: CommandLine, job: Path) -> dict[str, dict[str, object]]:
    outcome = headrace("queries", "list", job, "--json")
    assert outcome.status == 0, outcome.err
    return {each["name"]: each for each in json.loads(outcome.out)["queries"]}


def test_a_query_is_added_and_listed(headrace: CommandLine, job: Path, running: Stepper, trades: Path) -> None:
    outcome = headrace("queries", "add", job, "volume", VOLUME)
    assert outcome.status == 0, outcome.err
    assert outcome.out == "volume: added in step 2, version 2 of the registry\n"
    assert requests(running.directory) == []
    add_rows(job, trades)
    running.step(Input())
    running.step(Input())
    found = listed(headrace, job)
    assert list(found) == ["large_trades", "volume"]
    assert found["volume"]["sql"] == VOLUME
    assert found["volume"]["generation"] == 2
    assert sum(float(str(each["cost_share"])) for each in found.values()) == pytest.approx(1.0)
    shown = headrace("queries", "list", job).out
    assert VOLUME in shown
    assert "generation" in shown


def test_a_query_may_come_from_a_file(headrace: CommandLine, job: Path, running: Stepper, tmp_path: Path) -> None:
    (tmp_path / "volume.sql").write_text(VOLUME)
    assert headrace("queries", "add", job, "volume", "--file", tmp_path / "volume.sql").status == 0
    assert "volume" in running.registry.queries
    both = headrace("queries", "add", job, "other", VOLUME, "--file", tmp_path / "volume.sql")
    assert both.status == 2
    assert "one of them" in both.err
    assert headrace("queries", "add", job, "other").status == 2


def test_a_query_is_replaced_and_dropped(headrace: CommandLine, job: Path, running: Stepper) -> None:
    headrace("queries", "add", job, "volume", VOLUME)
    replaced = headrace("queries", "replace", job, "volume", VOLUME.replace("2 s", "4 s"))
    assert "volume: replaced in step 3" in replaced.out
    assert replaced.err == ""
    assert listed(headrace, job)["volume"]["generation"] == 3
    assert "volume: dropped in step 4" in headrace("queries", "drop", job, "volume").out
    assert list(listed(headrace, job)) == ["large_trades"]


def test_what_the_files_say_comes_back(headrace: CommandLine, job: Path, running: Stepper) -> None:
    dropped = headrace("queries", "drop", job, "large_trades")
    assert dropped.status == 0
    assert "large_trades is in the files of" in dropped.err


def test_refusals_are_errors(headrace: CommandLine, job: Path, running: Stepper) -> None:
    headrace("queries", "add", job, "volume", VOLUME)
    twice = headrace("queries", "add", job, "volume", VOLUME)
    assert twice.status == 1
    assert "error[query-exists]" in twice.err
    unknown = headrace("queries", "drop", job, "volum")
    assert unknown.status == 1
    assert "did you mean 'volume'?" in unknown.err


def test_mistakes_leave_no_request(headrace: CommandLine, job: Path, stepper: Stepper) -> None:
    mistakes = [("volume", VOLUME.replace("Vol)", "Vo)"), "^^"), ("a/b", VOLUME, "can't be the name of a query")]
    for name, sql, expected in mistakes:
        outcome = headrace("queries", "add", job, name, sql)
        assert outcome.status == 1
        assert expected in outcome.err
    assert headrace("tables", "reload", job, "Clos").status == 1
    assert requests(stepper.directory) == []


def test_names_differ_in_more_than_their_case(headrace: CommandLine, job: Path, running: Stepper) -> None:
    headrace("queries", "add", job, "volume", VOLUME)
    twice = headrace("queries", "add", job, "Volume", VOLUME)
    assert twice.status == 1
    assert "there is a query 'volume' already" in twice.err


@pytest.mark.parametrize("name", ["my-query", "5min", "_x", "é", "a b", "a" * 65])
def test_names_are_those_that_files_take(headrace: CommandLine, job: Path, stepper: Stepper, name: str) -> None:
    for outcome in (
        headrace("queries", "add", job, name, VOLUME),
        headrace(
            "parse", script_with(job, f"CREATE QUERY `{name}` AS {VOLUME};"), "--schema", job.parent / "schema.sql"
        ),
        headrace("parse", script_with(job, f"CREATE QUERY {name} AS {VOLUME};"), "--schema", job.parent / "schema.sql"),
    ):
        assert outcome.status == 1
        assert name == "a b" or QUERY_NAME_HINT in outcome.err
    assert requests(stepper.directory) == []


def script_with(job: Path, text: str) -> Path:
    path = job.parent / "named.sql"
    path.write_text(text)
    return path


def test_a_mistake_in_a_file_names_it(headrace: CommandLine, job: Path, stepper: Stepper) -> None:
    path = script_with(job, VOLUME.replace("Vol)", "Vo)"))
    outcome = headrace("queries", "add", job, "volume", "--file", path)
    assert f"error[unknown-name]: {path}:1:" in outcome.err


def test_without_an_engine_the_request_waits(headrace: CommandLine, job: Path, stepper: Stepper) -> None:
    outcome = headrace("queries", "add", job, "volume", VOLUME, "--wait", 0)
    assert outcome.status == 0
    assert "no engine answered within 0 s: the request stays in" in outcome.out
    assert "requests that wait for a step: add volume" in headrace("queries", "list", job).err
    stepper.step(Input())
    assert list(listed(headrace, job)) == ["large_trades", "volume"]


def test_a_query_over_results_is_asked_for_where_these_are_read(
    headrace: CommandLine, job: Path, stepper: Stepper
) -> None:
    sql = "SELECT count(*) AS n FROM large_trades [RANGE '1 hour']"
    outcome = headrace("queries", "add", job, "hourly", sql, "--wait", 0)
    assert outcome.status == 0, outcome.err
    state = f"{read_job(job).state}/large_trades"
    (request,) = requests(open_directory(state))
    assert (request.action, request.name, request.sql) == ("add", "hourly", sql)
    assert requests(stepper.directory) == []
    assert "add hourly" in headrace("queries", "list", job).err
    refused = headrace("queries", "add", job, "daily", "SELECT count(*) AS n FROM hourl [RANGE '1 day']")
    assert "no stream or table 'hourl'" in refused.err


def test_a_query_that_came_late_tells_when_its_first_window_ends(
    headrace: CommandLine, job: Path, running: Stepper, trades: Path
) -> None:
    """2,000 trades are about six seconds from 17:00:00, the lateness is 5 s: the watermark is at about 17:00:01.

    17:00:00 -1- 2 - 3 - 4 - 5 - 6 - 7 ... 10     rows until 6.3, the new query has seen none of them
              watermark          rows end   first whole window of 5 s: [10, 15)
    """
    add_rows(job, trades)
    running.step(Input())
    headrace("queries", "add", job, "volume", VOLUME.replace("2 s", "5 s"))
    found = listed(headrace, job)["volume"]
    assert found["windows"] == 0
    assert found["waiting_until"] == "2004-12-01T17:00:15Z"
    assert "2004-12-01T17:00:15Z" in headrace("queries", "list", job).out


def test_empty_windows_that_were_left_out_are_counted(headrace: CommandLine, job: Path, running: Stepper) -> None:
    """A large trade a day: between two of them there are 17,278 empty windows of 12 s that slide by 5 s."""
    add = job.parent / "data" / "Trades"
    for number in range(3):
        time = datetime(2004, 12, 1 + number, 17, tzinfo=UTC)
        rows = {"Time": [time], "Symbol": ["A"], "Price": [1.0], "Vol": [6_000]}
        pq.write_table(pa.table(rows), add / f"part-{number}.parquet")
        running.step(Input())
    running.step(Input())
    found = listed(headrace, job)["large_trades"]
    assert (found["windows"], found["left_out"]) == (2 + 1_000 + 2, 16_278)
    shown = headrace("queries", "list", job).out
    assert "empty windows left out" in shown
    assert "16,278" in shown


def test_a_table_is_read_again(headrace: CommandLine, job: Path, running: Stepper, trades: Path) -> None:
    outcome = headrace("tables", "reload", job, "index", "--wait", 0)
    assert outcome.status == 0, outcome.err
    (waiting,) = requests(running.directory)
    assert (waiting.action, waiting.name) == ("reload", "Index")


def test_a_job_that_never_ran_has_no_queries(headrace: CommandLine, job: Path) -> None:
    for arguments in (["list", job], ["add", job, "volume", VOLUME]):
        outcome = headrace("queries", *arguments)
        assert outcome.status == 1
        assert "there is no state in" in outcome.err
        assert "headrace run makes it" in outcome.err


def test_each_stream_has_its_own_queries(headrace: CommandLine, job: Path, running: Stepper, trades: Path) -> None:
    declaration = "CREATE STREAM Orders (Time TIMESTAMP, Vol BIGINT) EVENT TIME Time"
    with (job.parent / "schema.sql").open("a") as file:
        file.write(f"{declaration};\n")
    job.write_text(job.read_text() + '\n[streams.Orders]\npath = "data/Trades"\n')
    orders = load_catalog(read_job(job)).stream("Orders")
    assert orders is not None
    other = prepare(job.parent / "state" / "Orders", format_stream(orders))
    headrace("queries", "add", job, "volume", VOLUME.replace("Trades", "Orders"), "--wait", 0)
    assert [each.name for each in requests(other)] == ["volume"]
    headrace("queries", "drop", job, "volume", "--wait", 0)
    assert [each.action for each in requests(other)] == ["add", "drop"]
    assert "volume" in headrace("queries", "list", job).err
    unknown = headrace("queries", "drop", job, "nothing")
    assert unknown.status == 1
    assert "no stream of" in unknown.err


def test_names_in_the_list_can_not_steer_the_terminal() -> None:
    found = [
        Listed(f"{name}\x1b[31m", name, 1, 0, 0, 0, 0, None, None, ["\x1b[2Jedge"], None, None, "SELECT")
        for name in "ab"
    ]
    terminal = Console(file=io.StringIO(), width=200, force_terminal=True, color_system=None)
    terminal.print(table_of(found))
    assert isinstance(terminal.file, io.StringIO)
    shown = terminal.file.getvalue()
    assert "b\N{REPLACEMENT CHARACTER}[31m" in shown
    assert "\N{REPLACEMENT CHARACTER}[2Jedge" in shown
    assert "\x1b[31m" not in shown
    assert "\x1b[2J" not in shown
