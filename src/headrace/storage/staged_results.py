"""Files for people: staged under a name that readers skip, shown under their own once the step is committed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from headrace.storage.disk import (
    DamagedError,
    MissingError,
    begin_sync,
    check_digest,
    digest,
    make_folder,
    read_file,
    translate_errors,
    write_whole,
)
from headrace.storage.records import Commit, ResultFile, ResultFolder, StoredFile
from headrace.storage.store import MissingObjectError, Store, place_of, read_object

SMALL_BYTES = 1 << 16


def parquet_bytes(table: pa.Table) -> bytes:
    """Small tables, of which there are many, as plainly as can be."""
    sink = pa.BufferOutputStream()
    if table.nbytes > SMALL_BYTES:
        pq.write_table(table, sink, compression="snappy")
    else:
        pq.write_table(table, sink, compression="none", use_dictionary=False, write_statistics=False)
    return bytes(sink.getvalue())


def json_bytes(table: pa.Table) -> bytes:
    """One JSON object per line; times in ISO 8601, decimals as text."""
    lines = [json.dumps(row, ensure_ascii=False, default=json_value) for row in table.to_pylist()]
    return "".join(f"{line}\n" for line in lines).encode()


def json_value(value: object) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


FORMATS: Mapping[str, Callable[[pa.Table], bytes]] = {"parquet": parquet_bytes, "json": json_bytes}


STAGING = ".staged"
"""The folder of files that are not shown yet: readers skip names that begin with a dot."""


class Staging(NamedTuple):
    """Whose staged files these are: the name of the state's directory, and the step."""

    state: str
    step: int


def staging_folder(root: Path, place: str) -> Path:
    """Where files of a state wait to be shown: several may show results in one folder."""
    return root / STAGING / place


def stage(root: Path, folder: str, name: str, staging: Staging, table: pa.Table, file_format: str) -> ResultFile:
    """Write a file that is not there yet for readers.

    `begin_sync_staged` must follow, and be waited for before the step is committed.
    """
    data = FORMATS[file_format](table)
    waiting = staging_folder(root, staging.state)
    staged = f"{waiting.relative_to(root)}/{staging.step:09}-{uuid4().hex}"
    make_folder(root / folder)
    make_folder(waiting)
    with translate_errors(root / staged):
        write_whole(root / staged, data, is_synced=False)
    return ResultFile(
        folder, StoredFile(staged, digest(data), len(data)), f"{folder}/{name}.{file_format}", table.num_rows
    )


def stage_results(
    folders: Sequence[ResultFolder], query: str, name: str, staging: Staging, table: pa.Table
) -> Iterator[ResultFile]:
    """Write the same rows as a file in each folder of results."""
    for place, folder in enumerate(folders):
        yield replace(stage(Path(folder.path), query, name, staging, table, folder.format), folder=place)


def begin_sync_staged(folders: Sequence[ResultFolder], files: Iterable[ResultFile]) -> Callable[[], None]:
    return begin_sync(Path(folders[file.folder].path, file.staged.name) for file in files)


def staging_folders(state: str, folders: Sequence[ResultFolder], commit: Commit) -> set[Path]:
    """Where a commit's files wait to be shown: their names must be on the disk before the record that names them."""
    return {staging_folder(Path(folders[file.folder].path), state) for file in commit.results}


def stage_rejected(store: Store, step: int, table: pa.Table) -> ResultFile:
    """Put rows that were not counted into the state, where readers do not look for them yet."""
    data, id = parquet_bytes(table), uuid4().hex
    staged = StoredFile(f"staged/{step:09}-{id}", digest(data), len(data))
    store.put(staged.name, data)
    return ResultFile("rejected", staged, f"rejected/step-{step:09}-{id[:8]}.parquet", table.num_rows)


def show_rejected(store: Store, files: Iterable[ResultFile]) -> None:
    """Give committed rows their names. It may have been done already."""
    for file in files:
        try:
            data = check_digest(store.get(file.staged.name), file.staged.digest, place_of(store, file.staged.name))
        except MissingObjectError:
            read_object(store, file.name, file.staged.digest)
        else:
            store.put(file.name, data)
            store.delete([file.staged.name])


def show(places: Iterable[tuple[Path, ResultFile]]) -> set[Path]:
    """Give committed files their names, if all are what was committed; what has its name already is checked too. The
    folders that changed are returned: these must be synced before the next step is committed, since only the last
    one's files are looked after.
    """
    renames = []
    for root, file in places:
        staged, shown = root / file.staged.name, root / file.name
        if staged.exists():
            read_file(staged, file.staged.digest)
            renames.append((staged, shown))
        elif shown.exists():
            read_file(shown, file.staged.digest)
        else:
            raise DamagedError(shown, "is missing")
    for staged, shown in renames:
        try:
            with translate_errors(shown):
                os.replace(staged, shown)
        except MissingError:
            if not shown.exists():  # else another engine finished the same commit
                raise
    return {shown.parent for _, shown in renames}
