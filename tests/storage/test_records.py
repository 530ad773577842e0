"""Records: written as JSON, read as the type that was written, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from headrace.storage.disk import DamagedError, read_record, to_record
from headrace.storage.records import Commit, Journal, Manifest, ObjectRef, QueryState, SliceObject, StoredObject

COMMIT = Commit(
    step=3,
    epoch=1,
    previous="",
    registry=2,
    plan=None,
    tables={},
    queries={"q": QueryState(1, skipped=((1, 2),))},
    manifests=(ObjectRef(3, "ab", "cd"), None),
)
MANIFEST = Manifest(3, 0, (SliceObject(StoredObject("slices/a", "ab", 10), 5, 6, 0, 2_048),))


def written(path: Path, document: object) -> Path:
    path.write_bytes(to_record(document))
    return path


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_record(written(tmp_path / "commit", COMMIT), Commit) == COMMIT
    assert read_record(written(tmp_path / "manifest", MANIFEST), Manifest) == MANIFEST


@pytest.mark.parametrize(
    "change",
    [{"later": 1}, {"step": "3"}, {"step": -3}, {"step": None}, {"queries": {"q": {"later": 1}}}, {"manifests": [{}]}],
    ids=str,
)
def test_fields_that_are_not_known_and_values_of_other_types_are_damage(change: dict[str, Any], tmp_path: Path) -> None:
    """A record of a later version must not be read as if nothing were missing."""
    path = written(tmp_path / "commit", {**to_builtins(COMMIT), **change})
    with pytest.raises(DamagedError, match="can't be used"):
        read_record(path, Commit)


def test_a_field_that_is_missing_has_its_default_if_there_is_one(tmp_path: Path) -> None:
    document = to_builtins(COMMIT)
    del document["plans"]
    assert read_record(written(tmp_path / "commit", document), Commit) == COMMIT
    del document["registry"]
    with pytest.raises(DamagedError, match="registry"):
        read_record(written(tmp_path / "commit", document), Commit)


def test_no_number_is_written_that_json_does_not_have() -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_record({"position": float("nan")})


def test_a_file_may_have_a_name_that_is_no_text(tmp_path: Path) -> None:
    journal = Journal(1, None, None, None, 0, None, {}, changed=("/in/\udc80.csv",))
    assert read_record(written(tmp_path / "journal", journal), Journal) == journal
