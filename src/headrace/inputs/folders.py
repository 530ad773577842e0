"""The values that `key=value` folders on the way to a file give to its rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, tzinfo

import pyarrow as pa
import pyarrow.compute as pc

from headrace.inputs.conversion import null_column, read_texts
from headrace.inputs.file_list import folder_values
from headrace.inputs.source import BadFile, Declaration, Source
from headrace.model.schema import Column


@dataclass(frozen=True, eq=False)
class Folders:
    """The values that the folders of a file give to declared columns which the file lacks."""

    values: dict[str, pa.Scalar]

    @classmethod
    def of(
        cls, source: Source, path: str, declaration: Declaration, held: Collection[str], detail: str | None = None
    ) -> Folders:
        """Return the values for columns that are not `held`. `detail` says what there is instead of the event time."""
        texts = folder_values(source, path)
        columns = {column.name: column for column in declaration.columns if column.name.lower() in texts}
        if declaration.event_time is not None and declaration.event_time not in {*held, *columns}:
            raise BadFile(path, f"has no column '{declaration.event_time}', the event time", detail)
        return cls(
            {
                name: folder_value(path, texts[name.lower()], column, declaration.zone)
                for name, column in columns.items()
                if name not in held
            }
        )

    def column(self, column: Column, length: int) -> pa.Array:
        value = self.values.get(column.name)
        return null_column(column, length) if value is None else pa.repeat(value, length)

    def fill(self, column: Column, array: pa.Array) -> pa.Array:
        value = self.values.get(column.name)
        return array if value is None or not array.null_count else pc.coalesce(array, value)


NO_FOLDERS = Folders({})


def folder_value(path: str, text: str | None, column: Column, zone: tzinfo) -> pa.Scalar:
    read = read_texts(pa.array([text], pa.string()), column.type, UTC if column.is_local else zone)
    if read.failed is not None:
        raise BadFile(path, f"the value of its folder '{column.name}={text}' can't be read as {column.type}")
    return read.values[0]
