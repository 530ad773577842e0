"""Objects of slices: what a process keeps of them, and how they are shared when the number of reducers changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.step.stepper import Input
from headrace.model.key_groups import Partitioning
from headrace.storage.directory import Directory
from headrace.storage.records import Commit, SliceObject
from headrace.storage.results import read_manifest
from headrace.storage.slices import Cache, share_slices
from tests.engine.files import make_stepper, write_inputs

Slices = list[list[SliceObject]]


@pytest.fixture
def held(tmp_path: Path) -> tuple[Directory, Commit, Slices]:
    """A state after some steps, and the slices of its two reducers."""
    stepper = make_stepper(write_inputs(tmp_path, 4))
    for _ in range(4):
        commit = stepper.step(Input())
    stepper.close()
    assert commit is not None
    location = stepper.directory.store.location
    refs = [ref for ref in commit.manifests if ref is not None]
    assert len(refs) == 2
    return stepper.directory, commit, [list(read_manifest(location, *item).slices) for item in enumerate(refs)]


def test_what_is_kept_of_an_object_is_given_as_long_as_its_plan_counts(held: tuple[Directory, Commit, Slices]) -> None:
    directory, commit, (slices, _) = held
    (plan,) = {span.plan for span in commit.spans}
    cache = Cache(1 << 20)
    for live in ({plan}, set[str](), {plan}):
        assert cache.read(directory, "r", slices, live).keys() == live


def test_objects_that_nobody_needs_are_forgotten(held: tuple[Directory, Commit, Slices]) -> None:
    directory, commit, (slices, _) = held
    cache, live = Cache(1 << 20), {span.plan for span in commit.spans}
    cache.read(directory, "r", slices, live)
    first_us = min(part.end_us for part in slices)
    cache.forget(directory, first_us)
    location = directory.store.location
    assert cache.held.keys() == {(location, part) for part in slices if part.end_us > first_us}


@pytest.mark.parametrize("numbers", [(2, 5, 3), (2, 1, 2), (2, 7, 4, 1)], ids=str)
def test_however_often_they_are_shared_each_row_has_one_owner(
    numbers: tuple[int, ...], held: tuple[Directory, Commit, Slices]
) -> None:
    directory, commit, slices = held
    live = {span.plan for span in commit.spans}
    known = commit.partitioning
    expected = count_rows(directory, slices, live, known.copies)
    for reducers in numbers[1:]:
        chosen = Partitioning(reducers, min(2, reducers))
        sources = [reducer % known.copies if reducer < chosen.copies else None for reducer in range(reducers)]
        slices = [share_slices(slices, source, chosen.key_groups(place)) for place, source in enumerate(sources)]
        assert count_rows(directory, slices, live, chosen.copies) == expected
        known = chosen


def count_rows(directory: Directory, slices: Slices, live: set[str], copies: int) -> tuple[int, set[int]]:
    """Return the number of rows with groups of all reducers, and the numbers without groups of those that have them."""
    grouped, ungrouped = 0, []
    for own in slices:
        parts = [
            part
            for places in Cache(1 << 20).read(directory, "r", own, live).values()
            for same in places.values()
            for part in same
        ]
        grouped += sum(part.rows for part in parts if part.groups)
        ungrouped.append(sum(part.rows for part in parts if not part.groups))
    assert not any(ungrouped[copies:])
    return grouped, set(ungrouped[:copies])


def test_there_are_rows_of_both_kinds(held: tuple[Directory, Commit, Slices]) -> None:
    directory, commit, slices = held
    copies = commit.partitioning.copies
    grouped, ungrouped = count_rows(directory, slices, {span.plan for span in commit.spans}, copies)
    assert grouped
    assert len(ungrouped) == 1
    assert all(ungrouped)
