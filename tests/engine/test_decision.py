"""What a step does is decided from values alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import structs

from headrace.engine.step.decision import decide_step
from headrace.engine.step.input import NewFiles
from headrace.engine.step.stepper import Input
from tests.engine.files import batches, make_stepper, write_input


def test_the_same_facts_give_the_same_journal_and_write_nothing(tmp_path: Path) -> None:
    for number, rows in enumerate(batches(3)):
        write_input(tmp_path / "input", rows, number)
    stepper = make_stepper(tmp_path)
    facts = stepper.gather(Input())
    before = sorted(path for path in tmp_path.rglob("*"))
    journal = decide_step(facts)
    assert journal is not None
    assert journal == decide_step(facts)
    assert (journal.step, len(journal.files), journal.ended) == (1, 1, False)
    assert sorted(path for path in tmp_path.rglob("*")) == before
    stepper.close()


def test_a_step_without_anything_to_do_is_none(tmp_path: Path) -> None:
    for number, rows in enumerate(batches(2)):
        write_input(tmp_path / "input", rows, number)
    stepper = make_stepper(tmp_path)
    first = stepper.step(Input())
    assert first is not None
    facts = stepper.gather(Input())
    nothing = replace(facts, files=NewFiles(), has_rows=False)
    # |--- rows of step 1 ---|  its watermark passed ends of windows, so they are closed in step 2
    assert decide_step(nothing) is not None
    closed = replace(nothing, before=structs.replace(first, closed_us=first.watermark_us))
    assert decide_step(closed) is None
    # a file that is left for another step keeps the stream from ending
    ended = decide_step(replace(closed, is_last=True))
    assert ended is not None
    assert ended.ended
    assert decide_step(replace(closed, is_last=True, files=NewFiles(is_more=True))) is None
    stepper.close()
