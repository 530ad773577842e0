"""A bounded run over a directory of files in this process, with what it counted and what it answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.engine.sinks.sinks import ResultFolder
from headrace.engine.step.context import StreamSetting
from headrace.engine.step.runner import InProcess
from headrace.engine.step.stepper import Input, Stepper
from headrace.inputs import Source
from headrace.model.schema import Catalog
from headrace.sql import format_stream, parse_query, parse_script
from headrace.storage.directory import prepare
from headrace.storage.records import Commit
from tests.engine.file_stepper import FileStepper
from tests.engine.stories import without_sync


@dataclass(frozen=True)
class FileRun:
    """A run over `root/input`; its state and results are beside it."""

    root: Path
    catalog: Catalog
    queries: Mapping[str, str]
    source: Source
    on_bad_file: str = "quarantine"
    step_bytes: int = 1 << 30

    @classmethod
    def of(
        cls,
        root: Path,
        declaration: str,
        queries: Mapping[str, str],
        file_format: str = "parquet",
        options: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> FileRun:
        (root / "input").mkdir(parents=True, exist_ok=True)
        source = Source(str(root / "input"), file_format, options or {})
        return cls(root, parse_script(declaration).catalog, queries, source, **settings)

    def stepper(self) -> Stepper:
        """A stepper that owns the state, with the queries registered."""
        (stream,) = self.catalog.streams
        directory = prepare(self.root / "state", format_stream(stream))
        folders = (ResultFolder(str(self.root / "results"), "parquet"),)
        setting = StreamSetting(
            uuid4().hex, str(directory.root), self.catalog, stream.name, self.source, self.on_bad_file
        )
        stepper = FileStepper(setting, InProcess(2), folders, reducers=2, step_bytes=self.step_bytes)
        if stepper.commit is None:
            asked = {name: (sql, parse_query(sql, self.catalog)) for name, sql in self.queries.items()}
            stepper.changes.register(asked)
        return stepper

    def to_the_end(self) -> Commit:
        """Read all files that are there, then end the input; the last commit."""
        return self.steps_to_the_end()[-1]

    def steps_to_the_end(self) -> list[Commit]:
        with without_sync():
            stepper = self.stepper()
            try:
                commits = []
                while (commit := stepper.step(Input(ended=True))) is not None:
                    commits.append(commit)
                return commits
            finally:
                stepper.close()

    def results(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query; times are microseconds, since a window may end in the year 10000."""
        files = sorted((self.root / "results" / query).glob("*.parquet"))
        found = [in_microseconds(pq.read_table(file)) for file in files]
        return pa.concat_tables(found).to_pylist() if found else []

    def rejected(self) -> list[dict[str, Any]]:
        """The side output: rows that no window took."""
        files = sorted((self.root / "state" / "rejected").glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]


def in_microseconds(table: pa.Table) -> pa.Table:
    types = [pa.int64() if pa.types.is_timestamp(each.type) else each.type for each in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, types, strict=True))))
