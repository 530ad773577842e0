"""Data and queries of the papers' experiments: seeded generators of Parquet files, and workloads as SQL scripts.

A new kind of data is one module and one line in `KINDS`; a new workload is one function and one line in its family.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import inf
from pathlib import Path

from headrace.datasets import netflow, packets, syn, trades
from headrace.datasets.generation import EPOCH, MICROSECOND, DatasetSummary, FileLayout, Progress, write_dataset
from headrace.datasets.kinds import DataKind, Recipe
from headrace.datasets.workloads import WORKLOADS, Workload, workload
from headrace.model.errors import UsageError

__all__ = ["KINDS", "WORKLOADS", "DataKind", "DatasetSummary", "Progress", "Workload", "generate", "workload"]

KINDS: Mapping[str, DataKind] = {kind.name: kind for kind in (trades.KIND, packets.KIND, netflow.KIND, syn.KIND)}


def generate(
    kind: str,
    rows: int | None,
    seed: int,
    out: Path,
    *,
    preset: str | None = None,
    flow_length: float | None = None,
    start: datetime | None = None,
    rate: float | None = None,
    file_span_s: float | None = None,
    disorder_s: float = 0.0,
    progress: Progress | None = None,
) -> DatasetSummary:
    """Write a data set into the new or empty directory `out`: `<stream>/part-*.parquet`, static tables, `schema.sql`.

    The values depend on kind, preset, rows, seed, flow length, start and rate alone. Rows come `rate` a second, in
    order of event time or up to `disorder_s` seconds late, in files of `file_span_s` seconds each.
    """
    if kind not in KINDS:
        raise UsageError("dataset", f"unknown kind of data '{kind}'", hint=f"there are {', '.join(KINDS)}")
    chosen = KINDS[kind]
    recipe = _recipe(chosen, rows, seed, preset, flow_length, start, rate)
    layout = _layout(chosen.default_file_span_s if file_span_s is None else file_span_s, disorder_s)
    return write_dataset(chosen, recipe, layout, out, progress)


def _recipe(
    kind: DataKind,
    rows: int | None,
    seed: int,
    preset: str | None,
    flow_length: float | None,
    start: datetime | None,
    rate: float | None,
) -> Recipe:
    rows = kind.default_rows if rows is None else rows
    start = kind.default_start if start is None else start
    if rows < 1:
        raise UsageError("dataset", f"a data set needs at least 1 row, not {rows}")
    if seed < 0:
        raise UsageError("dataset", f"a seed is 0 or more, not {seed}")
    if start.tzinfo is None:
        raise UsageError("dataset", f"the start {start} needs a time zone")
    if rate is not None and not 0.0 < rate < inf:
        raise UsageError("dataset", f"rows come at more than 0 a second, not {rate:g}")
    preset = _preset(kind, preset)
    if flow_length is not None:
        _check_flow_length(kind, preset, flow_length)
    return Recipe(rows, seed, preset, (start - EPOCH) // MICROSECOND, kind.span_us(rows, rate), flow_length)


def _preset(kind: DataKind, preset: str | None) -> str | None:
    if preset is None:
        return kind.presets[0] if kind.presets else None
    if preset not in kind.presets:
        there_are = ", ".join(kind.presets) or "none"
        raise UsageError("dataset", f"{kind.name} has no preset '{preset}'", hint=f"there are {there_are}")
    return preset


def _check_flow_length(kind: DataKind, preset: str | None, flow_length: float) -> None:
    if preset not in kind.presets_with_flows:
        of_preset = f" with preset {preset}" if preset else ""
        raise UsageError("dataset", f"{kind.name}{of_preset} has no flows, so flow_length does not apply")
    if not 1.0 <= flow_length < inf:
        raise UsageError("dataset", f"the mean flow length is at least 1 packet, not {flow_length}")


def _layout(file_span_s: float, disorder_s: float) -> FileLayout:
    if not 1.0 <= file_span_s < inf:
        raise UsageError("dataset", f"a file spans at least 1 second, not {file_span_s}")
    if not 0.0 <= disorder_s < inf:
        raise UsageError("dataset", f"the disorder is 0 seconds or more, not {disorder_s}")
    return FileLayout(round(file_span_s * 1e6), round(disorder_s * 1e6))
