"""Job files, the skeleton of one, and the plan of a job."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from headrace.cli.commands.init import FILES, README
from headrace.cli.job_file import ENGINE, INPUT, JOB, MASTER, QUOTAS, SINK, Job, read_job
from headrace.cli.jobs import load_catalog, load_script, read_sample
from headrace.engine.quotas import Quotas
from headrace.inputs import Source
from headrace.model.errors import HeadraceError, UsageError
from tests.cli.command_line import CommandLine

ROOT = Path(__file__).parents[2]
LEAST = """
schema = "schema.sql"
queries = "queries.sql"
state = "state"
[streams.Trades]
path = "data/Trades"
[tables.Close]
path = "data/Close"
[tables.Index]
path = "data/Index"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the skeleton, and a job file with no more than there must be."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "job.toml").write_text(LEAST)
    return tmp_path


def job_with(folder: Path, *, top: str = "", end: str = "", **changed: str) -> Job:
    """The least job with lines before and after it, and with other values of some keys."""
    lines = [line for line in LEAST.splitlines() if line.partition(" = ")[0] not in changed]
    replaced = [f"{key} = {value}" for key, value in changed.items() if value]
    (folder / "job.toml").write_text("\n".join([top, *replaced, *lines, end]))
    return read_job(folder / "job.toml")


def test_the_least_job_has_defaults(folder: Path) -> None:
    job = read_job(folder / "job.toml")
    assert job.schema == folder / "schema.sql"
    assert job.queries == (folder / "queries.sql",)
    assert job.state == str(folder / "state")
    assert job.functions is None
    assert (job.master, job.trigger) == (MASTER, "1 s")
    assert job.streams == {"trades": Source(str(folder / "data" / "Trades"))}
    assert job.sinks == ()
    assert job.engine == {}
    assert job.quotas == Quotas()
    assert job.spark == {}


def test_paths_are_relative_to_the_job_and_not_to_where_one_stands(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert read_job(folder / "job.toml").state == str(folder / "state")
    monkeypatch.chdir(folder)
    assert read_job(Path("job.toml")).state == str(folder / "state")
    assert job_with(folder, state='"/var/tmp/state"').state == "/var/tmp/state"


def test_every_key_finds_its_place(folder: Path) -> None:
    (folder / "more.sql").write_text("CREATE QUERY more AS SELECT count(*) AS n FROM Trades [RANGE '1 s'];")
    job = job_with(
        folder,
        queries='["queries.sql", "more.sql"]',
        top='master = "local[2]"\ntrigger = "200 ms"',
        end="""
        [tables.Close.options]
        [[sinks]]
        kind = "json"
        path = "out"
        [[sinks]]
        kind = "console"
        rows = 3
        [engine]
        reducers = 3
        on_bad_file = "quarantine"
        max_empty = 0
        retain = "1 hour"
        results = "2 days"
        step_bytes = 1000
        [quotas]
        queries = 5
        [spark]
        "spark.driver.memory" = "2g"
        spark.task.cpus = 1
        spark.shuffle.compress = false
        """,
    )
    assert job.sinks == ({"kind": "json", "path": str(folder / "out")}, {"kind": "console", "rows": 3})
    assert job.engine == {
        "reducers": 3,
        "on_bad_file": "quarantine",
        "max_empty": 0,
        "retain": "1 hour",
        "results": "2 days",
        "step_bytes": 1000,
    }
    assert job.quotas == Quotas(queries=5)
    assert job.spark == {
        "spark.driver.memory": "2g",
        "spark.task.cpus": "1",
        "spark.shuffle.compress": "false",
    }
    assert [named.name for named in load_script(job).queries] == ["large_trades", "busiest", "movers", "more"]


@pytest.mark.parametrize(
    ("changes", "expected", "hint"),
    [
        ({"top": "trigge = '1 s'"}, "there is no key 'trigge'", "'trigger'"),
        ({"top": "colour = 'red'"}, "there is no key 'colour'", "its keys are schema, queries"),
        ({"top": "trigger = 1"}, "'trigger' is 1, not a duration", None),
        ({"top": "trigger = '0 s'"}, "'trigger' is '0 s', not a duration", None),
        ({"top": "trigger = 'soon'"}, "not a duration such as '1 s'", None),
        ({"top": "master = 4"}, "'master' is 4, not a text", None),
        ({"schema": ""}, "'schema' is missing", None),
        ({"schema": "3"}, "'schema' is 3, not a text", None),
        ({"schema": "'none.sql'"}, "there is no such file", None),
        ({"queries": "[]"}, "'queries' is [], not a text or a list of texts", None),
        ({"queries": "['queries.sql', 'none.sql']"}, "there is no such file", None),
        ({"top": "functions = 'none.py'"}, "there is no such file", None),
        ({"state": "'hdfs://host/state'"}, "hdfs:// is not a store that state can live on", "s3://"),
        ({"end": "[streams.More]\npath = 's3://bucket/rows'"}, "s3:// is not a file system", None),
        ({"top": "streams = 3", "end": ""}, "is not TOML", None),
        ({"end": "[engine]\nreducer = 2"}, "[engine]: there is no key 'reducer'", "'reducers'"),
        ({"end": "[engine]\nreducers = 0"}, "'reducers' is 0, not a whole number from 1 on", None),
        ({"end": "[engine]\nreducers = true"}, "'reducers' is True, not a whole number", None),
        ({"end": "[engine]\non_bad_file = 'skip'"}, "'on_bad_file' is 'skip', not stop or quarantine", None),
        ({"end": "[quotas]\nqueries = '5'"}, "[quotas]: 'queries' is '5', not a whole number", None),
        ({"end": "[spark]\n'spark.a' = [1]"}, "[spark]: 'spark.a' is [1], not a text", None),
        ({"end": "[[sinks]]\nkind = 'parket'\npath = 'x'"}, "'kind' is 'parket', not parquet or json or console", None),
        ({"end": "[[sinks]]\nkind = 'parquet'"}, "'path' is missing: where the parquet files go", None),
        ({"end": "[[sinks]]\nkind = 'console'\npath = 'x'"}, "a console sink has no 'path'", None),
        ({"end": "[sinks]\nkind = 'console'"}, "not a list of sections", None),
        ({"end": "[streams.More]\npath = 'x'\nformat = 'parqet'"}, "[streams.More]: 'parqet' is not", "'parquet'"),
        ({"end": "[streams.More]\npath = 'x'\noptions = {header = 'no'}"}, "have no option 'header'", None),
        ({"end": "[streams.More]\nfolder = 'x'"}, "[streams.More]: there is no key 'folder'", None),
        ({"end": "[streams.More]\n"}, "[streams.More]: 'path' is missing", "or name the edges"),
        ({"end": "[streams.More]\npath = 'x'\npush = 'rows'"}, "'push' is of no use without 'edges'", None),
        ({"end": "[streams.More]\nedges = 'a'\npush = 'windows'"}, "'push' is 'windows', not partials or rows", None),
    ],
)
def test_mistakes_are_named(folder: Path, changes: dict[str, Any], expected: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as problem:
        job_with(folder, **changes)
    assert problem.value.code in ("job", "file-system", "store")
    assert expected in problem.value.message
    assert hint is None or hint in (problem.value.hint or "")


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("[streams.Trade]\npath = 'x'", "[streams.trade]: schema.sql does not declare it"),
        ("[tables.Other]\npath = 'x'", "[tables.other]: schema.sql does not declare it"),
    ],
)
def test_what_has_a_place_is_declared(folder: Path, end: str, expected: str) -> None:
    with pytest.raises(UsageError) as problem:
        load_catalog(job_with(folder, end=end))
    assert expected in problem.value.message


def test_what_is_declared_has_a_place(folder: Path) -> None:
    with (folder / "schema.sql").open("a") as file:
        file.write("CREATE TABLE More (Symbol STRING);")
    with pytest.raises(UsageError, match="does not say where the rows of More are") as problem:
        load_catalog(read_job(folder / "job.toml"))
    assert "[tables.More]" in (problem.value.hint or "")


def test_queries_and_declarations_have_files_of_their_own(folder: Path) -> None:
    schema = (folder / "schema.sql").read_text()
    (folder / "again.sql").write_text("CREATE QUERY Busiest AS SELECT count(*) AS n FROM Trades [RANGE '1 s'];")
    job = job_with(folder, queries='["queries.sql", "again.sql"]')
    with pytest.raises(UsageError, match="a query 'Busiest' in another file already"):
        load_script(job)
    (folder / "again.sql").write_text("CREATE TABLE More (Symbol STRING);")
    with pytest.raises(UsageError, match="declares streams or tables"):
        load_script(job)
    (folder / "schema.sql").write_text(schema + (folder / "queries.sql").read_text())
    with pytest.raises(UsageError, match="has queries"):
        load_script(job)
    (folder / "schema.sql").write_text("CREATE TABLE Close (Symbol STRING);")
    with pytest.raises(UsageError, match="declares no stream"):
        load_script(job)


def test_a_mistake_in_a_query_shows_its_spot(folder: Path) -> None:
    (folder / "queries.sql").write_text("CREATE QUERY a AS SELECT sum(Vo) FROM Trades [RANGE '1 s'];")
    with pytest.raises(HeadraceError) as problem:
        load_script(read_job(folder / "job.toml"))
    assert "^^" in str(problem.value)


def test_functions_are_known_to_the_queries(folder: Path) -> None:
    (folder / "functions.py").write_text(
        "import headrace\n\n@headrace.user_function\ndef twice(number: int) -> int:\n    return 2 * number\n"
    )
    (folder / "queries.sql").write_text("CREATE QUERY a AS SELECT sum(twice(Vol)) AS v FROM Trades [RANGE '1 s'];")
    job = job_with(folder, top='functions = "functions.py"')
    assert [named.name for named in load_script(job).queries] == ["a"]


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    keys = {key for section in (JOB, INPUT, SINK, ENGINE, QUOTAS) for key in section}
    assert not [key for key in keys if f"`{key}`" not in text]


# headrace init


def test_the_skeleton_is_a_job(headrace: CommandLine, tmp_path: Path) -> None:
    outcome = headrace("init", tmp_path / "first")
    assert outcome.status == 0, outcome.err
    assert "headrace run" in outcome.out
    job = read_job(tmp_path / "first" / "job.toml")
    assert [named.name for named in load_script(job).queries] == ["large_trades", "busiest", "movers"]
    assert len(README.splitlines()) <= 16


def test_the_skeleton_overwrites_nothing(headrace: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "schema.sql").write_text("mine")
    outcome = headrace("init", tmp_path)
    assert outcome.status == 1
    assert "has schema.sql already" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["schema.sql"]
    assert (tmp_path / "schema.sql").read_text() == "mine"


def test_the_skeleton_fits_generated_trades(headrace: CommandLine, tmp_path: Path, trades: Path) -> None:
    headrace("init", tmp_path / "first")
    (tmp_path / "first" / "data").symlink_to(trades)
    job = read_job(tmp_path / "first" / "job.toml")
    catalog = load_catalog(job)
    assert read_sample(job, catalog.streams[0], 10).num_rows == 2_000
    assert all(read_sample(job, table, 1).num_rows > 1 for table in catalog.tables)


# headrace explain JOB


def test_the_plan_of_a_job_is_that_of_its_queries(headrace: CommandLine, folder: Path, trades: Path) -> None:
    (folder / "data").symlink_to(trades)
    of_job = headrace("explain", folder / "job.toml")
    assert of_job.status == 0, of_job.err
    assert of_job.out == headrace("explain", folder / "queries.sql", "--data", trades).out


def test_a_job_says_itself_where_its_data_are(headrace: CommandLine, folder: Path, trades: Path) -> None:
    both = headrace("explain", folder / "job.toml", "--data", trades)
    assert both.status == 2
    assert "a job file says itself where its data" in both.err
    neither = headrace("explain", folder / "queries.sql")
    assert neither.status == 2
    assert "--data" in neither.err


def test_a_plan_needs_read_sample(headrace: CommandLine, folder: Path, trades: Path) -> None:
    copytree(trades, folder / "data")
    for file in (folder / "data" / "Trades").iterdir():
        file.unlink()
    outcome = headrace("explain", folder / "job.toml")
    assert outcome.status == 1
    assert f"there are no rows of Trades in {folder / 'data' / 'Trades'}" in outcome.err
    assert "it needs some rows" in outcome.err
    (folder / "data" / "Trades").rmdir()
    assert "[streams.Trades]: 'path' names" in headrace("explain", folder / "job.toml").err


def test_a_stray_file_is_told_with_the_way_to_leave_it_out(headrace: CommandLine, folder: Path, trades: Path) -> None:
    copytree(trades, folder / "data")
    notes = folder / "data" / "Trades" / "notes.txt"
    notes.write_text("from the plant")
    outcome = headrace("explain", folder / "job.toml")
    assert outcome.status == 1
    assert f"error[bad-file]: {notes}" in outcome.err
    assert "hint: every file of the directory is read, unless its name begins with . or _: " in outcome.err
    notes.rename(notes.with_name("_notes.txt"))
    assert headrace("explain", folder / "job.toml").status == 0


def test_a_plan_is_made_without_files_that_the_run_would_leave_out(
    headrace: CommandLine, folder: Path, trades: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copytree(trades, folder / "data")
    bad = folder / "data" / "Trades" / "half.parquet"
    bad.write_bytes(next((trades / "Trades").iterdir()).read_bytes()[:500])
    stopped = headrace("explain", folder / "job.toml")
    assert stopped.status == 1
    assert 'on_bad_file = "quarantine"' in stopped.err
    job_with(folder, end='[engine]\non_bad_file = "quarantine"')
    found = headrace("explain", folder / "job.toml")
    assert found.status == 0, found.err
    assert caplog.messages[0].startswith(f"left out: {bad}: is damaged")


# Mistakes name their file


def test_mistakes_name_the_file_the_line_and_the_column(
    headrace: CommandLine, folder: Path, trades: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "data").symlink_to(trades)
    (folder / "more.sql").write_text(
        "-- more\nCREATE QUERY more AS\n  SELECT count(*) AS n, sum(Vo) FROM Trades [RANGE '1 s'];\n"
    )
    job_with(folder, queries='["queries.sql", "more.sql"]')
    monkeypatch.chdir(folder)
    place = "error[unknown-name]: more.sql:3:29: no column 'Vo'"
    for arguments in (
        ("explain", "job.toml"),
        ("run", "job.toml"),
        ("parse", "more.sql", "--schema", "schema.sql"),
        ("eval", "more.sql", "--data", "data"),
        ("explain", "more.sql", "--data", "data"),
    ):
        assert place in headrace(*arguments).err, arguments
    (folder / "schema.sql").write_text("CREATE STREAM;")
    assert "error[syntax]: schema.sql:1:14: expected" in headrace("run", "job.toml").err
    monkeypatch.chdir(trades)
    assert f"error[syntax]: {folder / 'schema.sql'}:1:14: expected" in headrace("run", folder / "job.toml").err
