"""Data on disk: the Parquet files of a stream or table, and result files that people can open."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from headrace.cli.output_file import writing
from headrace.inputs import BadFile, Rows, Source, one_file, read_file
from headrace.inputs.readers import refuse_rejected
from headrace.inputs.source import MEND_TABLE
from headrace.model.arrow import conform
from headrace.model.errors import DataError, UsageError
from headrace.model.schema import Stream, Table
from headrace.storage.staged_results import json_bytes


def read_relation(folder: Path, relation: Stream | Table) -> Rows:
    """All rows of DIR/<name>/*.parquet in declared types, as a run reads them; a row of a static table must fit."""
    directory = find_directory(folder, relation.name)
    files = sorted(directory.glob("*.parquet"))
    if not files:
        raise DataError("no-data", f"there are no Parquet files in {directory}")
    source = Source(str(directory))
    try:
        found = [rows for file in files for rows in read_file(source, one_file(str(file)), relation)]
    except BadFile as problem:
        raise BadFile(problem.path, problem.problem, problem.detail, MEND_TABLE) from None
    empty = Rows(conform(pa.table({}), relation.columns))
    rejected = pa.concat_tables([rows.rejected for rows in (empty, *found)])
    if isinstance(relation, Table):
        refuse_rejected(str(directory), rejected)
    return Rows(pa.concat_tables([rows.table for rows in (empty, *found)]), rejected)


def check_folder(folder: Path) -> None:
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise UsageError("file", f"the data folder {folder} {problem}", hint="headrace data KIND --out DIR makes one")


def find_directory(folder: Path, name: str) -> Path:
    matches = [entry for entry in folder.iterdir() if entry.is_dir() and entry.name.lower() == name.lower()]
    if len(matches) != 1:
        problem = "several folders" if matches else "no folder"
        raise DataError(
            "no-data", f"{folder} has {problem} '{name}'", hint=f"rows of {name} are {folder / name}/*.parquet"
        )
    return matches[0]


def write_csv(table: pa.Table, path: Path) -> None:
    pa_csv.write_csv(table, path)


def write_json(table: pa.Table, path: Path) -> None:
    path.write_bytes(json_bytes(table))


def write_json_document(document: object, path: Path) -> None:
    """One JSON document for people and programs."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "csv": write_csv,
    "json": write_json,
    "parquet": pq.write_table,
}
