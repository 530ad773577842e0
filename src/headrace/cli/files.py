"""Data on disk: the files that `--data` names, and result files that people can open."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv

from headrace.cli.output_file import writing
from headrace.engine.sinks.file_formats import json_bytes, json_value, parquet_bytes
from headrace.inputs import BadFile, InputRows, Source, list_files, one_file, read_file
from headrace.inputs.inference import infer_schema
from headrace.inputs.readers import refuse_rejected
from headrace.inputs.source import REPAIR, REPAIR_TABLE
from headrace.model.arrow import conform
from headrace.model.errors import DataError, UsageError
from headrace.model.schema import Stream, Table
from headrace.model.units import InputFile

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
"""How the names of files of each format end."""
SCHEMA = "schema.sql"
NO_FORMAT = f"names of files end in {', '.join(SUFFIXES)}; for others, --input-format says what they are"


@dataclass(frozen=True, slots=True)
class DataFiles:
    """What `--data` names: a file, a folder of files, or a folder that has a folder or file of each stream and table.

    Without a format, the names of the files decide. The options are those of csv, as in a job.
    """

    path: Path
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        if not self.path.exists():
            raise UsageError("file", f"there is no file or folder {self.path}", hint="--data names the rows to read")

    @property
    def schema(self) -> Path | None:
        """The file of declarations that `headrace data` writes into its folder, if there is one."""
        schema = self.path / SCHEMA
        return schema if schema.is_file() else None

    def find(self, name: str) -> Path | None:
        """Return the folder or the file that is called as a relation is, in any case."""
        if self.path.is_file():
            return None
        matches = [path for path in sorted(self.path.iterdir()) if relation_name(path).lower() == name.lower()]
        if len(matches) > 1:
            shown = ", ".join(path.name for path in matches)
            raise DataError("no-data", f"{self.path} has several folders or files of '{name}'", detail=shown)
        return matches[0] if matches else None

    def files_of(self, name: str, *, is_stream: bool) -> tuple[Source, list[InputFile]]:
        """Return the files of a relation, by name. Those of a stream may be all that there are."""
        place = self.find(name) or (self.path if is_stream else None)
        if place is None:
            at = self.path.parent if self.path.is_file() else self.path
            hint = f"expected is {at / name}/ or a file such as {at / name}.parquet, and --data {at}"
            raise DataError("no-data", f"there are no rows of the static table '{name}' in {self.path}", hint=hint)
        if place.is_file():
            file_format = self.format or SUFFIXES.get(place.suffix.lower())
            if file_format is None:
                raise UsageError("format", f"the name of {place} does not say its format", hint=NO_FORMAT)
            return Source(str(place), file_format, self.options), [one_file(str(place))]
        listed = sorted(list_files(Source(str(place))), key=lambda file: file.path)
        formats = {file: SUFFIXES.get(Path(file.path).suffix.lower()) for file in listed}
        known = sorted({name for name in formats.values() if name is not None})
        if self.format is None and len(known) != 1:
            problem = f"has files of several formats: {', '.join(known)}" if known else f"has no files of '{name}'"
            raise DataError("no-data", f"{place} {problem}", hint=NO_FORMAT)
        chosen = self.format or known[0]
        taken = [file for file in listed if formats[file] == chosen or (self.format and is_data(file, formats[file]))]
        if not taken:
            raise DataError("no-data", f"{place} has no files of format {chosen}")
        return Source(str(place), chosen, self.options), taken

    def columns_of(self, name: str, *, is_stream: bool) -> pa.Table:
        """Return a table without rows that has the columns of a relation's files."""
        source, files = self.files_of(name, is_stream=is_stream)
        try:
            return infer_schema(source, files).empty_table()
        except BadFile as problem:
            if problem.hint == REPAIR:
                problem.hint = REPAIR_TABLE
            raise

    def read(self, relation: Stream | Table) -> InputRows:
        """Read all rows in declared types, as a run reads them; a row of a static table must fit."""
        source, files = self.files_of(relation.name, is_stream=isinstance(relation, Stream))
        try:
            pieces = [rows for file in files for rows in read_file(source, file, relation)]
        except BadFile as problem:
            raise BadFile(problem.path, problem.problem, problem.detail, REPAIR_TABLE) from None
        empty = InputRows(conform(pa.table({}), relation.columns))
        rejected = pa.concat_tables([rows.rejected for rows in (empty, *pieces)])
        if isinstance(relation, Table):
            refuse_rejected(source.path, rejected)
        return InputRows(pa.concat_tables([rows.table for rows in (empty, *pieces)]), rejected)


def relation_name(path: Path) -> str:
    return path.stem if path.suffix.lower() in SUFFIXES and path.is_file() else path.name


def is_data(file: InputFile, known: str | None) -> bool:
    """Return whether a file whose name says no format holds data: scripts may lie beside it."""
    return known is None and not file.path.endswith(".sql")


def read_relation(folder: Path, relation: Stream | Table) -> InputRows:
    """Read all rows of DIR/<name>/ in declared types."""
    return DataFiles(folder).read(relation)


def csv_bytes(table: pa.Table) -> bytes:
    """Return a header and one line for each row; lists and structs are JSON."""
    for position, column in enumerate(table.schema):
        if pa.types.is_nested(column.type):
            texts = [json.dumps(value, ensure_ascii=False, default=json_value) for value in table[position].to_pylist()]
            table = table.set_column(position, column.name, pa.array(texts))
    target = pa.BufferOutputStream()
    pa_csv.write_csv(table, target)
    return target.getvalue().to_pybytes()  # type: ignore[no-any-return]


def write_json_document(document: object, path: Path) -> None:
    """Write one JSON document for people and programs."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


TEXT_FORMATS: Mapping[str, Callable[[pa.Table], bytes]] = {"csv": csv_bytes, "json": json_bytes}
FILE_FORMATS: Mapping[str, Callable[[pa.Table], bytes]] = {**TEXT_FORMATS, "parquet": parquet_bytes}
