"""The side output: rows that were not aggregated, kept for people with the reason."""

from __future__ import annotations

from uuid import uuid4

import pyarrow as pa

from headrace.engine.sinks.file_formats import parquet_bytes
from headrace.engine.step.context import Step
from headrace.model.arrow import arrow_type, for_people
from headrace.model.types import TIMESTAMP
from headrace.storage.disk import digest
from headrace.storage.records import RejectedFile, StoredObject

MAX_REJECTED = 1_000_000
"""How many rows a task keeps for the side output; those beyond are counted only."""


class SideOutput:
    """Rows that were not counted, with the file that they are from, the reason and the watermark, as one file of the
    task.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.path: str | None = None
        self.tables: list[pa.Table] = []
        self.rows = 0

    @property
    def room(self) -> int:
        return MAX_REJECTED - self.rows

    def add(self, table: pa.Table, reason: str) -> None:
        table = table.slice(0, self.room)
        declared = {column.name: column for column in self.step.setting.declared.columns}
        shown = for_people(table, [declared[name] for name in table.column_names])
        self.keep(shown, pa.repeat(pa.scalar(reason, pa.string()), table.num_rows))

    def add_raw(self, rejected: pa.Table) -> None:
        if rejected.num_rows:
            kept = rejected.slice(0, self.room)
            self.keep(kept.select(["raw"]), kept["reason"])

    def keep(self, table: pa.Table, reasons: pa.Array) -> None:
        watermark = pa.scalar(self.step.journal.watermark_us, pa.int64()).cast(arrow_type(TIMESTAMP))
        marked = table.append_column("rejected_reason", reasons)
        marked = marked.append_column("rejected_file", pa.repeat(pa.scalar(self.path, pa.string()), table.num_rows))
        marked = marked.append_column("rejected_watermark", pa.repeat(watermark, table.num_rows))
        marked = marked.append_column("rejected_step", pa.repeat(self.step.journal.step, table.num_rows))
        self.tables.append(marked)
        self.rows += marked.num_rows

    def close(self) -> list[RejectedFile]:
        """Put the rows into the state, where readers do not look for them before the step is committed."""
        if not self.tables:
            return []
        table = pa.concat_tables(self.tables, promote_options="default")
        data, step, id = parquet_bytes(table), self.step.journal.step, uuid4().hex
        staged = StoredObject(f"staged/{step:09}-{id}", digest(data), len(data))
        self.step.setting.directory.store.put(staged.name, data)
        return [RejectedFile(staged, f"rejected/step-{step:09}-{id[:8]}.parquet", table.num_rows)]
