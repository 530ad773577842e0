"""Damaged files of an engine's, an edge's and a relay's state: noticed, repaired or harmless, never another result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import pytest

from headrace.edge.agent import Agent
from headrace.edge.agent_progress import Mode
from headrace.edge.file_source import FileSource
from headrace.edge.spool import Spool
from headrace.engine.edge_inbox import Inbox
from headrace.engine.registry import answer_to, ask
from headrace.engine.sinks.sinks import ResultFolder
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input, Stepper
from headrace.inputs import Source
from headrace.sql import format_stream, parse_query
from headrace.storage.directory import prepare
from headrace.wire.exchange import DirectoryExchange
from headrace.wire.frames import Frame, from_bytes
from headrace.wire.ledger import EdgeState, FrameVerdict, decide, take_frame
from headrace.wire.orders import Orders
from tests.edge import agents
from tests.edge.agents import EDGE, QUICK, barred, write_files
from tests.edge.test_relay import ROWS as RELAY_ROWS
from tests.edge.test_relay import Place, check_all_arrived
from tests.edge.test_relay import sent as relay_frames
from tests.engine.file_stepper import FileStepper
from tests.engine.files import CATALOG, LATER, QUERIES, batches, expected, in_order, make_stepper, write_input
from tests.engine.stories import read_results
from tests.faults.damage import Case, Matrix, Subject, kind_of, run_cases
from tests.oracle.test_kernel import check

SEED = 20
FILES = 9
STOPS_AT = 6
SAMPLE = 24
READ_AT = {
    "journal": "before the commit",
    "outputs": "after the commit",
    "commits": "clean",
    "manifests": "clean",
    "slices": "clean",
    "plans": "clean",
    "registry": "clean",
}
"""Folders of a state, and where its run stops so that the newest objects in them are read by the next."""
STREAM = CATALOG.streams[0]


class Killed(Exception):
    """The engine, or the relay, is killed here."""


def kill(*_: object, **__: object) -> None:
    raise Killed


def stop_at(stepper: Stepper, place: str) -> None:
    """Run one more step, up to a place."""
    if place == "clean":
        stepper.step(Input())
    else:
        owner, name = (stepper.owner, "write_commit") if place == "before the commit" else (stepper, "finish")
        with patch.object(owner, name, kill), pytest.raises(Killed):
            stepper.step(Input())
    stepper.close()


def state_files(root: Path) -> list[Path]:
    """The state, and the mark of the results: files that are visible are the readers'."""
    return [root / "state", *(root / "results").glob(".headrace-*")]


def check_windows(root: Path, *, is_whole: bool) -> None:
    """Every window that is visible is the reference's. After an error rows of some reducers may not be visible yet."""
    theirs = expected(FILES)
    for name, sql in (QUERIES | LATER).items():
        query = parse_query(sql, CATALOG)
        windows = read_results(root / "results" / name, query)
        if is_whole and name in QUERIES:
            assert windows.keys() == {window for window, rows in theirs[name].items() if rows}, name
        for window, ours in windows.items():
            rows = theirs[name][window]
            if not is_whole and query.group_by:
                rows = [row for row in rows if row[2] in {each[2] for each in ours}]
            check(query, in_order(query.limit, ours), in_order(query.limit, rows))


class OwnState:
    """The state of an engine that reads files. Answers and a request wait, slices and rejected rows are there."""

    def build(self, root: Path, place: str) -> None:
        for number, rows in enumerate(batches(FILES)):
            write_input(root / "input", rows, number)
        stepper = make_stepper(root)
        while stepper.number < STOPS_AT:
            if stepper.number == 2:
                (root / "asked").write_text(ask(stepper.directory, "add", "later", LATER["later"]))
            stepper.step(Input())
        if place != "clean":
            ask(stepper.directory, "drop", "later")
        stop_at(stepper, place)
        if place == "clean":
            ask(stepper.directory, "drop", "later")

    def folders(self, root: Path) -> Iterable[Path]:
        return state_files(root)

    def finish(self, root: Path, file: Path) -> None:
        stepper = make_stepper(root)
        try:
            while stepper.step(Input(ended=stepper.number > FILES)) is not None:
                pass
            self.check_answer(stepper, root, file)
        finally:
            stepper.close()
        check_windows(root, is_whole=True)

    def check_answer(self, stepper: Stepper, root: Path, file: Path) -> None:
        """Who asked either finds the answer as it was written, or hears that it is damaged."""
        answer = answer_to(stepper.directory, (root / "asked").read_text())
        assert file.parent.name == "outbox" or (answer is not None and answer["step"] == 2)

    def check_shown(self, root: Path, file: Path) -> None:
        check_windows(root, is_whole=False)


class RootOfEdges:
    """The state of an engine whose rows come from an edge; what the edge sends and is sent is in it too."""

    def stepper(self, root: Path) -> Stepper:
        directory = prepare(root / "state", format_stream(STREAM))
        folders = (ResultFolder(str(root / "results"), "parquet"),)
        setting = StreamSetting(uuid4().hex, str(directory.root), CATALOG, "r", None, max_empty=1_000, edges=(EDGE,))
        inbox = Inbox(directory, STREAM, [EDGE], DirectoryExchange(root / "state" / "exchange"))
        stepper = FileStepper(setting, InProcess(2), folders, reducers=2, inbox=inbox, step_bytes=1)
        if stepper.commit is None:
            texts = agents.QUERIES
            stepper.changes.register({name: (sql, parse_query(sql, CATALOG)) for name, sql in texts.items()})
        return stepper

    def agent(self, root: Path, mode: Mode) -> Agent:
        spool = Spool(root / "edge", EDGE, "r")
        source = FileSource(Source(str(root / "input")), STREAM, spool.known.files, spool.known.reading, print)
        pace = replace(QUICK, every_s=1e-9)
        exchange = root / "state" / "exchange"
        return Agent(CATALOG, STREAM, spool, source, lambda: DirectoryExchange(exchange), mode=mode, pace=pace)

    def build(self, root: Path, place: str) -> None:
        """Rows as they are come first, until there is a plan; then partials."""
        stepper = self.stepper(root)
        stepper.step(Input())
        write_files(root, 2)
        self.agent(root, Mode.ONCE).run()
        for _ in range(2):
            stepper.step(Input())
        write_files(root, FILES, first=2)
        self.agent(root, Mode.BOUNDED).run()
        stepper.step(Input())
        stop_at(stepper, place)

    def folders(self, root: Path) -> Iterable[Path]:
        return state_files(root)

    def finish(self, root: Path, file: Path) -> None:
        stepper = self.stepper(root)
        try:
            while stepper.step(Input(ended=True)) is not None:
                pass
            is_ended, waiting = stepper.is_ended, stepper.waiting.parked
        finally:
            stepper.close()
        exchange = DirectoryExchange(root / "state" / "exchange")
        if not is_ended:
            # A frame that is lost on its way holds back what follows, and that is reported.
            assert file.is_relative_to(exchange.root), "nothing else may hold it up"
            assert waiting or list((exchange.root / "refused").iterdir()) or not file.exists()
        self.compare(root, is_whole=is_ended)

    def compare(self, root: Path, *, is_whole: bool) -> None:
        theirs = agents.expected(FILES, agents.QUERIES)
        for name, sql in agents.QUERIES.items():
            windows = read_results(root / "results" / name, parse_query(sql, CATALOG))
            ours = sorted(row for rows in windows.values() for row in rows)
            assert ours == theirs[name] if is_whole else set(ours) <= set(theirs[name]), name

    def check_shown(self, root: Path, file: Path) -> None:
        self.compare(root, is_whole=False)


def take_frames(exchange: DirectoryExchange) -> tuple[list[Frame], bool]:
    """The frames that the upper side takes in their order, and whether any is held back."""
    ledger: dict[str, EdgeState] = {}
    found, is_held_back = [], False
    for path in exchange.waiting():
        data = path.read_bytes()
        frame = from_bytes(data)
        verdict, _ = decide(ledger, frame.header)
        is_held_back |= verdict is FrameVerdict.WAIT
        if verdict is FrameVerdict.TAKE:
            ledger = take_frame(ledger, frame.header, len(data))
            found.append(frame)
    return found, is_held_back


class AgentState:
    """The state of an edge: some of its files are read and sent, the frames of others wait."""

    def build(self, root: Path, place: str) -> None:
        agents.upper(root).publish(Orders("r"))
        pace = replace(QUICK, every_s=1e-9, patience_s=0.1)
        write_files(root, 2)
        agents.make_agent(root, pace=pace).run()
        write_files(root, 5, first=2)
        agent = agents.make_agent(root, pace=pace)
        if place == "clean":
            agent.run()
            return
        if place == "after the commit":  # the upper side has the frames, and the edge does not know
            agent.spool.settle = lambda *_, **__: None  # type: ignore[method-assign]
            agent.run()
            return
        agent.following.has_polled.wait()
        with barred(root):
            agent.run()

    def folders(self, root: Path) -> Iterable[Path]:
        return [root / "state"]

    def finish(self, root: Path, file: Path) -> None:
        """Rows reach the upper side once each; or some are held back there, which the ledger says."""
        agents.make_agent(root, pace=replace(QUICK, every_s=1e-9)).run()
        self.compare(root, take_frames(agents.upper(root)), is_whole=True)

    def compare(self, root: Path, received: tuple[list[Frame], bool], *, is_whole: bool) -> None:
        frames, is_held_back = received
        ours, theirs = (Counter(map(repr, rows)) for rows in (agents.rows_in(frames), agents.sent_rows(5)))
        assert ours <= theirs, f"{(ours - theirs).total()} rows came twice"
        assert ours == theirs or is_held_back or not is_whole, f"{(theirs - ours).total()} rows are lost in silence"

    def check_shown(self, root: Path, file: Path) -> None:
        self.compare(root, take_frames(agents.upper(root)), is_whole=False)


class RelayState:
    """The state of a relay: its spool, its plans, and the frames that its edges have sent to it."""

    def build(self, root: Path, place: str) -> None:
        relay = Place(root)
        frames = [frame for edge in relay_frames() for frame in edge]
        relay.put(*frames[: len(frames) // 2])
        relay.relay.step()
        relay.send()
        relay.put(*frames[len(frames) // 2 :])
        if place == "clean":
            relay.relay.step()
            relay.relay.spool.settle(None, at_once=True)
        else:  # before the frame is spooled, or before those that it was made of are deleted
            owner, name = (relay.relay.spool, "add") if place == "before the commit" else (Path, "unlink")
            with patch.object(owner, name, kill), pytest.raises(Killed):
                relay.relay.step()
        relay.close()

    def folders(self, root: Path) -> Iterable[Path]:
        return [path for path in root.iterdir() if path.name != "above"]

    def finish(self, root: Path, file: Path) -> None:
        """Every row goes up once; or frames are held back, here or above, which is reported."""
        relay = Place(root)
        try:
            relay.restart()
            relay.relay.step()
            relay.send()
            held_back = bool(relay.relay.intake.parked) or relay.relay.intake.refused > 0
        finally:
            relay.close()
        frames, held_back_above = take_frames(relay.above)
        # A file that is gone is missed when the next one comes.
        if held_back or held_back_above or not file.exists():
            assert sum(frame.header.rows.read for frame in frames) <= len(RELAY_ROWS)
        else:
            check_all_arrived(frames)

    def check_shown(self, root: Path, file: Path) -> None:
        frames, _ = take_frames(DirectoryExchange(root / "above"))
        assert sum(frame.header.rows.read for frame in frames) <= len(RELAY_ROWS)


SUBJECTS: dict[str, Subject] = {
    "state": OwnState(),
    "root of edges": RootOfEdges(),
    "edge": AgentState(),
    "relay": RelayState(),
}


def check_cases(matrix: Matrix, cases: Iterable[Case]) -> None:
    outcomes = dict(run_cases(matrix, cases))
    for case, outcome in outcomes.items():
        if "/inbox/" in case.file and outcome == "detected":
            outcomes[case] = "wrong: one request stops the run"
    print(f"seed {matrix.seed}: {Counter(outcome.partition(':')[0] for outcome in outcomes.values())}")
    wrong = {case: outcome for case, outcome in outcomes.items() if outcome.startswith("wrong")}
    found = "\n".join(f"{case}: {outcome}" for case, outcome in wrong.items())
    assert not found, f"{len(wrong)} of {len(outcomes)}, seed {matrix.seed}:\n{found}"


def test_damage_is_noticed_or_harmless(tmp_path: Path) -> None:
    matrix = Matrix(tmp_path, SUBJECTS, SEED)
    check_cases(matrix, matrix.sample(SAMPLE))


def test_damage_to_what_is_read_is_noticed(tmp_path: Path) -> None:
    matrix = Matrix(tmp_path, {"state": OwnState()}, SEED)
    newest: dict[str, Case] = {}
    for case in matrix.cases():
        folder = Path(case.file).parent.name
        if case.damage == "empty" and case.place == READ_AT.get(folder):
            newest[kind_of(case.file)] = case
    assert {Path(file).parent.name for file in newest} == READ_AT.keys()
    outcomes = {str(case): outcome for case, outcome in run_cases(matrix, newest.values())}
    assert outcomes == dict.fromkeys(outcomes, "detected")


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS)
def test_any_damage_is_noticed_or_harmless(subject: str, tmp_path: Path) -> None:
    matrix = Matrix(tmp_path, {subject: SUBJECTS[subject]}, SEED)
    check_cases(matrix, matrix.cases())
