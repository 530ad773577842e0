"""Slice files, and what a process keeps of them."""

from __future__ import annotations

from pathlib import Path

from headrace.engine.step.stepper import Input
from headrace.storage.slices import Cache
from tests.engine.files import batches, make_stepper, write_input


def test_what_is_kept_of_a_file_is_given_as_long_as_its_plan_counts(tmp_path: Path) -> None:
    for number, rows in enumerate(batches(2)):
        write_input(tmp_path / "input", rows, number)
    stepper = make_stepper(tmp_path)
    commit = stepper.step(Input())
    stepper.close()
    assert commit is not None
    (plan,) = {span.plan for span in commit.spans}
    cache, file = Cache(1 << 20), commit.slices[0]
    for live in ({plan}, set[str](), {plan}):
        assert cache.read(stepper.directory, "r", file, live).keys() == live


def test_of_a_file_that_is_gone_nothing_is_kept(tmp_path: Path) -> None:
    write_input(tmp_path / "input", batches(1)[0], 0)
    stepper = make_stepper(tmp_path)
    commit = stepper.step(Input())
    stepper.close()
    assert commit is not None
    cache, (first, *others) = Cache(1 << 20), commit.slices
    for file in (first, *others):
        cache.read(stepper.directory, "r", file, {span.plan for span in commit.spans})
    cache.keep_only(stepper.directory, others)
    assert cache.held.keys() == {(stepper.directory.store.location, file.file.name) for file in others}
