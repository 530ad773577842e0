"""Where the rows of a stream or table come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.inputs import Source, list_files
from headrace.model.errors import UsageError
from headrace.storage.disk import local_path

PathText = str | PathLike[str]


@dataclass(frozen=True, slots=True)
class Feed:
    """Files, or a dataframe; and edges, which send frames to a directory."""

    source: Source | None
    dataframe: Any = None
    edges: tuple[str, ...] = ()
    frames: Path | None = None
    wants_rows: bool = False


def make_feed(source: Any, format: str, options: Mapping[str, str] | None) -> Feed:
    if source is None:
        return Feed(None)
    if isinstance(source, str | PathLike):
        return Feed(Source(str(local_path(source)), format, dict(options or {})))
    return Feed(None, source)


def read_columns(source: Source | None, name: str) -> pa.Table:
    """Return a table without rows that has the columns of the first Parquet file."""
    files = list_files(source) if source is not None and source.format == "parquet" else []
    if not files:
        raise UsageError("stream", f"the columns of {name} are not known", hint="engine.declare('CREATE STREAM ...')")
    return pq.read_schema(files[0].path).empty_table()
