"""A step whose input is gone is finished without it: the loss is recorded, and no window pretends to be complete."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

from headrace.engine.chain import JoinedResults, Results, prepare_results
from headrace.engine.registry import ask
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.replay import abandon_input, gone_input
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input, Stepper
from headrace.inputs import BadFile, Source
from headrace.model.derived_streams import derived_stream
from headrace.model.errors import UsageError
from headrace.model.schema import Catalog
from headrace.sql import format_stream, parse_next, parse_query
from headrace.storage.directory import prepare, read_format
from headrace.storage.store import open_store
from tests.engine.file_stepper import FileStepper
from tests.engine.files import CATALOG, QUERIES, RESULTS, expected, make_stepper, write_input, write_inputs
from tests.engine.stories import read_results

STEPS = 12
LOST = 4
CLOCK_US = 3_000_000
"""A step: each file is about three seconds."""
pytestmark = pytest.mark.usefixtures("without_sync")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_inputs(tmp_path, STEPS)


def clock(number: int) -> Input:
    return Input(clock_us=number * CLOCK_US + 3_000_000)


def test_a_step_whose_file_is_gone_is_finished_without_it(root: Path) -> None:
    stepper = make_stepper(root)
    for number in range(LOST):
        stepper.step(clock(number))
    journal = stepper.begin(clock(LOST))
    assert journal is not None
    path = root / "input" / f"part-{LOST:04}.parquet"
    path.unlink()
    with pytest.raises(BadFile, match="can't be read"):
        stepper.step(clock(LOST))
    assert gone_input(stepper.directory, journal) == {str(path): "No such file or directory"}
    attempt = abandon_input(stepper.directory, journal.step, 0)
    stepper.load()
    (span,) = attempt.lost
    number = LOST
    commit = stepper.step(clock(number))
    assert commit is not None
    assert (commit.attempt, [each.path for each in commit.quarantined]) == (1, [str(path)])
    while (made := stepper.step(clock(number := number + 1))) is not None:
        commit = made
    while stepper.step(Input(ended=True)) is not None:
        pass
    stepper.close()
    assert commit.totals.rows == 12 * (STEPS - 1)
    theirs = expected(STEPS)
    for name, sql in QUERIES.items():
        ours = read_results(root / "results" / name, parse_query(sql, CATALOG))
        assert ours, name
        for window in ours:
            is_clear = window[1] <= (journal.closed_us or 0) or window[0] >= span.end_us
            assert is_clear or window[1] <= (journal.watermark_us or 0), (name, window, span)
        assert max(ours) == max(theirs[name]), "windows behind the loss are answered"


def test_nothing_is_abandoned_that_is_there(root: Path) -> None:
    stepper = make_stepper(root)
    stepper.step(clock(0))
    journal = stepper.begin(clock(1))
    assert journal is not None
    with pytest.raises(UsageError, match="is there"):
        abandon_input(stepper.directory, journal.step, 0)
    stepper.close()


SECOND_US = 1_000_000
UP = "SELECT k, count(*) AS n FROM r [RANGE '4 s'] GROUP BY k"
DOWN = "SELECT sum(n) AS total FROM up [RANGE '40 s']"


def two_rows(folder: Path, number: int, second: int) -> None:
    times_us = (second * SECOND_US, (second + 1) * SECOND_US)
    write_input(folder, [{"t": time_us, "k": "a", "v": 5, "x": 1.0} for time_us in times_us], number)


def lose(stepper: Stepper, path: Path, clock_us: int) -> None:
    """The step is begun with a file, which is lost then."""
    journal = stepper.begin(Input(clock_us=clock_us))
    assert journal is not None
    path.unlink()
    abandon_input(stepper.directory, journal.step, 0)
    stepper.load()


def test_a_query_that_joins_later_knows_of_the_loss(tmp_path: Path) -> None:
    """Its windows are longer than all before, and reach back to the lost rows."""
    two_rows(tmp_path / "input", 0, 10)
    stepper = make_stepper(tmp_path)
    lose(stepper, tmp_path / "input" / "part-0000.parquet", 12 * SECOND_US)
    stepper.step(Input(clock_us=12 * SECOND_US))
    for number, second in enumerate((100, 104), 1):
        two_rows(tmp_path / "input", number, second)
        stepper.step(Input(clock_us=(second + 2) * SECOND_US))
    sql = "SELECT count(*) AS n FROM r [RANGE '200 s' SLIDE '10 s']"
    ask(stepper.directory, "add", "long", sql)
    for number, second in enumerate((108, 114, 130, 140, 150), 10):
        two_rows(tmp_path / "input", number, second)
        stepper.step(Input(clock_us=(second + 2) * SECOND_US))
    stepper.close()
    assert not read_results(tmp_path / "results" / "long", parse_query(sql, CATALOG))


def test_queries_over_results_know_of_the_loss(tmp_path: Path) -> None:
    _, up = parse_next(UP, CATALOG, {})
    catalog, down = parse_next(DOWN, CATALOG, {"up": up})
    first = stepper_at(tmp_path, "r", CATALOG, None)
    first.changes.register({"up": (UP, up)})
    results = Results(first, derived_stream("up", up, CATALOG.streams[0].zone))
    directory = prepare_results(open_store(tmp_path / "job"), "up", results)
    beginning = read_format(directory.store).beginning
    whole = replace(catalog, derived=(results.stream,))
    second = stepper_at(tmp_path, "up", whole, JoinedResults(results, [], beginning))
    second.changes.register({"down": (DOWN, down)})
    for number in range(30):
        clock_us = (4 + 4 * number) * SECOND_US
        two_rows(tmp_path / "input", number, 2 + 4 * number)
        if number == 5:
            lose(first, tmp_path / "input" / f"part-{number:04}.parquet", clock_us)
        first.step(Input(clock_us=clock_us))
        while second.step(Input(clock_us=clock_us)) is not None:
            pass
    first.close()
    second.close()
    found = [row for path in (tmp_path / "results" / "down").glob("*") for row in pq.read_table(path).to_pylist()]
    assert [row["total"] for row in found] == [20], "the window with the loss is not answered"


def stepper_at(root: Path, place: str, catalog: Catalog, upstream: JoinedResults | None) -> Stepper:
    path = root / "job" / place
    if upstream is None:
        prepare(path, format_stream(CATALOG.streams[0]))
    source = Source(str(root / "input")) if upstream is None else None
    since_us = upstream.beginning.time_us if upstream else None
    setting = StreamSetting(uuid4().hex, str(path), catalog, place, source, since_us=since_us)
    return FileStepper(setting, InProcess(2), RESULTS(root), reducers=2, step_bytes=1, upstream=upstream)
