"""Tables as files that people open: Parquet and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

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
