"""A job that is killed again and again while files arrive and queries come and go: its results must be DuckDB's.

python -m tests.faults.chaos --rounds 200 --seed 1 --work DIR --json FILE

A round ends with one SIGKILL: of the driver, of its JVM or of a Python worker, each seen alive before, at a random
moment after the first commit of that start that keeps state. Meanwhile visible result files must stay as they are. In
the end the input is read to its end, and every window of every query is compared. --resume continues after the suite
itself was interrupted; what it knows is in DIR.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.job import FIXED, Comparison, Job, Stay, compare, draw_query, stay_from
from tests.faults.processes import process_of
from tests.faults.results import Sight, Watcher
from tests.faults.runs import IN_PROCESS, ON_SPARK, Change, Run, log_of, still_alive, wait_for

TARGETS = ("driver", "jvm", "worker")
SHARE_WITH_RESTART = 0.16
"""Of the rounds, for the driver and for the JVM each: these need a new start, which takes as long as several rounds."""
FILE_S = 0.4
LOOK_S = 1.0
MAX_MOMENT_S = 1.5
"""Longer than a step takes: a kill comes at any moment of it."""
MAX_QUERIES = 4
CHANGE_CHANCE = 0.6
JVM_GONE_S = 60.0
MAX_PRINTED = 200
"""Complaints of one kind."""


@dataclass
class Progress:
    """What the suite must not forget when it is interrupted."""

    seed: int
    rounds: int
    done: int = 0
    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TARGETS, 0))
    queries: int = 0
    stays: list[Stay] = field(default_factory=list)
    asked: str | None = None
    """The name of the query that a request is on its way for."""
    unclear: list[str] = field(default_factory=list)
    """Queries whose request was on its way when the suite was interrupted: nobody knows what became of them."""
    problems: list[str] = field(default_factory=list)
    children: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The processes of the run and of the request on its way: their numbers, and when they started."""
    sights: dict[str, Sight] = field(default_factory=dict)


def progress_from(document: dict[str, Any]) -> Progress:
    found = Progress(**document)
    found.stays = [stay_from(each) for each in document["stays"]]
    found.sights = {name: Sight(*sight) for name, sight in document["sights"].items()}
    return found


def schedule(rounds: int, seed: int, in_process: bool) -> list[str]:
    """The targets of all rounds, in an order that depends on the seed alone."""
    if in_process:
        return ["driver"] * rounds
    restarts = max(1, round(rounds * SHARE_WITH_RESTART))
    found = ["driver"] * restarts + ["jvm"] * restarts + ["worker"] * max(1, rounds - 2 * restarts)
    random.Random(f"schedule-{seed}").shuffle(found)
    return found[:rounds]


class Suite:
    """One run of the suite in a work folder."""

    def __init__(self, work: Path, progress: Progress, *, in_process: bool = False, state: str = "state") -> None:
        """The state is a folder in the work folder, or the URL of a store."""
        self.work = work
        self.progress = progress
        self.in_process = in_process
        self.job = Job(work, seed=progress.seed, state=state)
        self.job.write(trigger="20 ms" if in_process else "250 ms")
        self.watcher = Watcher(self.job.results, progress.sights)
        self.run: Run | None = None
        self.change: Change | None = None
        self.is_feeding = True
        self.fed_s = self.looked_s = 0.0

    @property
    def file(self) -> Path:
        return self.work / "suite.json"

    def save(self) -> None:
        self.progress.problems += self.watcher.problems
        self.watcher.problems.clear()
        document = {**vars(self.progress), "stays": [stay.document() for stay in self.progress.stays]}
        temporary = self.file.with_suffix(".writing")
        temporary.write_text(json.dumps(document))
        temporary.replace(self.file)

    def say(self, text: str) -> None:
        print(f"round {self.progress.done}, step {self.job.step}: {text}", file=sys.stderr, flush=True)

    # What goes on meanwhile

    def tick(self) -> None:
        """Files arrive, answers come, a reader looks at the results."""
        now_s = time.monotonic()
        if self.is_feeding and now_s - self.fed_s >= FILE_S:
            self.job.feed()
            self.fed_s = now_s
        if now_s - self.looked_s >= LOOK_S:
            self.watcher.look()
            self.looked_s = time.monotonic()
        if self.change is not None and self.change.is_done:
            self.note_answer(self.change)
            self.change = None

    def pause(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        wait_for(lambda: time.monotonic() >= until_s, "a moment", self.tick)

    # Queries come and go

    def request_change(self, source: random.Random) -> None:
        """Add a query, or replace or drop one that is there."""
        there = [stay for stay in self.progress.stays if stay.until_step is None]
        action = "add" if not there else source.choice(["add", "replace", "drop"])
        if action == "add" and len(there) >= MAX_QUERIES:
            action = "drop"
        asked = draw_query(source)
        if action == "add":
            self.progress.queries += 1
            name = f"q{self.progress.queries}"
        else:
            name = source.choice(there).name
        self.progress.asked = name
        self.change = Change(self.job, action, name, None if action == "drop" else asked.sql())
        self.wanted = asked
        self.note_child("request", self.change.child.pid)

    def note_answer(self, change: Change) -> None:
        answer = change.answer()
        if change.action != "add":
            (left,) = (stay for stay in self.progress.stays if stay.name == change.name and stay.until_step is None)
            left.until_step, left.is_replaced = answer.step, change.action == "replace"
            left.closed_us = self.job.closed_us(answer.step - 1)
        if change.action != "drop":
            announced = answer.first_us, answer.left_out, answer.left_out_until_us
            self.progress.stays.append(Stay(change.name, self.wanted, answer.step, *announced))
        self.progress.asked = None
        self.say(f"{change.action} {change.name} in step {answer.step}")

    def note_child(self, name: str, pid: int) -> None:
        process = process_of(pid)
        if process is not None:
            self.progress.children[name] = pid, process.start_ticks
        self.save()

    # Rounds

    def start(self) -> Run:
        module = IN_PROCESS if self.in_process else ON_SPARK
        self.run = run = Run(self.job, module=module)
        self.note_child("run", run.pid)
        wait_for(lambda: run.has_committed or not run.is_running, "the first commit of a start", self.tick)
        assert run.is_running, f"the run ended by itself: {run.text[-4_000:]}"
        return run

    def round(self, target: str, source: random.Random) -> None:
        run = self.run if self.run is not None and self.run.is_running else self.start()
        if self.change is None and source.random() < CHANGE_CHANCE:
            self.request_change(source)
        self.pause(source.random() * MAX_MOMENT_S)
        victims = run.targets()[target]
        if not victims:
            wait_for(lambda: bool(run.targets()[target]), f"a {target} to kill", self.tick)
            victims = run.targets()[target]
        before = self.job.step
        assert source.choice(victims).kill(), f"the {target} was alive, and then it was not"
        self.progress.kills[target] += 1
        self.say(f"killed the {target}")
        if target == "worker":
            wait_for(lambda: self.job.step > before or not run.is_running, "the next commit", self.tick)
            if run.is_running:
                return
            self.say(f"the run ended: {run.text[-300:]}")
        self.wait_for_end(run)

    def wait_for_end(self, run: Run) -> None:
        """After the death of its JVM a driver ends by itself; the JVM of a dead driver may live a little longer."""
        until_s = time.monotonic() + JVM_GONE_S
        wait_for(lambda: not run.is_running or time.monotonic() > until_s, "the end of the run", self.tick)
        if run.is_running:
            self.progress.problems.append(f"round {self.progress.done}: the driver outlived its JVM by {JVM_GONE_S} s")
        elif run.child.returncode not in (1, -9):
            self.progress.problems.append(f"round {self.progress.done}: exit {run.child.returncode}: {run.text[-300:]}")
        if run.is_running:
            run.kill()
        self.run = None
        for scratch in sorted((self.work / "scratch").iterdir())[:-2]:
            shutil.rmtree(scratch, ignore_errors=True)

    def run_rounds(self) -> None:
        targets = schedule(self.progress.rounds, self.progress.seed, self.in_process)
        while self.progress.done < self.progress.rounds:
            number = self.progress.done
            self.round(targets[number], random.Random(f"{self.progress.seed}-{number}"))
            self.progress.done += 1
            self.save()

    def finish(self) -> Comparison:
        """Take in the last answer, stop cleanly, read the input to its end, and compare."""
        run = self.run if self.run is not None and self.run.is_running else self.start()
        wait_for(lambda: self.change is None, "the last answer", self.tick)
        self.is_feeding = False
        assert run.stop() == 0, run.text[-4_000:]
        last = Run(self.job, "--bounded", module=IN_PROCESS if self.in_process else ON_SPARK)
        self.run = last
        wait_for(lambda: not last.is_running, "the end of the input", self.tick)
        assert last.child.returncode == 0, last.text[-4_000:]
        self.watcher.look(thorough=True)
        self.save()
        found = compare(self.job, [*FIXED, *(stay for stay in self.progress.stays if self.is_clear(stay))])
        found.differences += self.progress.problems
        return found

    def is_clear(self, stay: Stay) -> bool:
        return stay.name not in self.progress.unclear

    def close(self) -> None:
        if self.change is not None:
            self.change.kill()
        if self.run is not None:
            self.run.kill()


def report(progress: Progress, found: Comparison) -> dict[str, Any]:
    return {
        "rounds": progress.done,
        "kills": progress.kills,
        "rows": found.rows,
        "windows": found.windows,
        "differences": len(found.differences),
        "missing_windows": len(found.missing),
    }


def open_suite(
    work: Path, rounds: int, seed: int, *, resume: bool = False, in_process: bool = False, state: str = "state"
) -> Suite:
    """A new suite, or the one that was interrupted: its run is ended, and what was on its way is unclear."""
    file = work / "suite.json"
    if not resume:
        assert not file.exists(), f"{work} has a suite already: --resume, or another folder"
        return Suite(work, Progress(seed, rounds), in_process=in_process, state=state)
    progress = progress_from(json.loads(file.read_text()))
    progress.rounds = max(rounds, progress.rounds)
    for child in progress.children.values():
        if (left := still_alive(*child)) is not None:
            left.kill()
    if progress.asked is not None:
        progress.unclear.append(progress.asked)
        progress.stays = [stay for stay in progress.stays if stay.name != progress.asked]
        progress.asked = None
    return Suite(work, progress, in_process=in_process, state=state)


def run_suite(suite: Suite) -> tuple[dict[str, Any], Comparison]:
    try:
        suite.run_rounds()
        found = suite.finish()
    except BaseException as problem:
        suite.save()
        problem.add_note(f"seed {suite.progress.seed}, round {suite.progress.done}, {suite.work}\n{log_of(suite.work)}")
        raise
    finally:
        suite.close()
    return report(suite.progress, found), found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--work", type=Path, help="the folder of the suite (default: a new one)")
    parser.add_argument("--resume", action="store_true", help="continue the suite in --work")
    parser.add_argument("--in-process", action="store_true", help="without Spark: only the driver is killed")
    parser.add_argument("--state", default="state", help="s3://BUCKET/NAME: a store (default: a folder in --work)")
    options = parser.parse_args(arguments)
    if options.resume and options.work is None:
        parser.error("--resume needs --work")
    work = options.work or Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    work.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}, work folder {work}", file=sys.stderr)
    suite = open_suite(
        work,
        options.rounds,
        options.seed,
        resume=options.resume,
        in_process=options.in_process,
        state=options.state,
    )
    figures, found = run_suite(suite)
    for title, complaints in (("difference", found.differences), ("missing window", found.missing)):
        for each in complaints[:MAX_PRINTED]:
            print(f"{title}: {each}", file=sys.stderr)
    text = json.dumps(figures, indent=2)
    if options.json is not None:
        options.json.write_text(f"{text}\n")
    print(text)
    return 1 if found.differences or found.missing else 0


if __name__ == "__main__":
    sys.exit(main())
