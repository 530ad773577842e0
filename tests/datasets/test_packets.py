from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import duckdb
import numpy as np
import pytest

from headrace.datasets import generate

Load = Callable[..., duckdb.DuckDBPyConnection]

ATTRIBUTES = ("SourceIP", "DestIP", "SourcePort", "DestPort")
FIRST_ATTRIBUTES = (552, 1_846, 2_117, 2_837)


def group_count(packets: duckdb.DuckDBPyConnection, attributes: tuple[str, ...]) -> int:
    return len(packets.execute(f"SELECT DISTINCT {', '.join(attributes)} FROM Packets").fetchall())


def groups_in_order(packets: duckdb.DuckDBPyConnection) -> np.ndarray:
    columns = packets.execute(
        f"SELECT dense_rank() OVER (ORDER BY {', '.join(ATTRIBUTES)}) AS g, rowid AS r FROM Packets"
    ).fetchnumpy()
    return columns["g"][np.argsort(columns["r"])]


@pytest.mark.parametrize(
    ("preset", "flow_length"), [("gigascope", None), ("gigascope", 128.0), ("uniform", None), ("skewed", None)]
)
def test_group_counts(load: Load, preset: str, flow_length: float | None) -> None:
    packets = load("packets", preset, flow_length)
    for size, expected in enumerate(FIRST_ATTRIBUTES, 1):
        assert group_count(packets, ATTRIBUTES[:size]) == expected


def test_other_subsets_lie_between(load: Load) -> None:
    packets = load("packets")
    for size in (1, 2, 3):
        for attributes in combinations(ATTRIBUTES, size):
            assert 552 <= group_count(packets, attributes) <= 2_836, attributes


def test_62_seconds(load: Load) -> None:
    span = load("packets").execute("SELECT (epoch_us(max(Time)) - epoch_us(min(Time))) / 1e6 FROM Packets").fetchone()
    assert span == (pytest.approx(62, abs=0.01),)


@pytest.mark.parametrize("flow_length", [8.0, None, 128.0])
def test_flows_have_the_mean_length_and_are_interleaved(load: Load, flow_length: float | None) -> None:
    """Flows derived from time, as GS does: a packet begins a flow when its group was silent for 200 packets."""
    groups = groups_in_order(load("packets", "gigascope", flow_length))
    order = np.argsort(groups, kind="stable")
    same_group = np.diff(groups[order]) == 0
    close_by = np.diff(order) <= 200
    flows = 1 + np.count_nonzero(~(same_group & close_by))
    assert len(groups) / flows == pytest.approx(flow_length or 32.0, rel=0.06)
    assert np.mean(groups[1:] != groups[:-1]) > 0.8


def test_uniform_records_are_independent_and_equally_likely(load: Load) -> None:
    groups = groups_in_order(load("packets", "uniform"))
    counts = np.bincount(groups)[1:]
    expected = len(groups) / len(counts)
    chi_square = np.sum(np.square(counts - expected)) / expected
    assert chi_square == pytest.approx(len(counts), rel=0.15)
    assert np.mean(groups[1:] == groups[:-1]) == pytest.approx(1 / 2_837, rel=0.25)


def test_skewed_groups_follow_a_power_law(load: Load) -> None:
    counts = np.sort(np.bincount(groups_in_order(load("packets", "skewed")))[1:])[::-1]
    share = np.cumsum(counts) / counts.sum()
    assert share[round(0.03 * len(counts))] == pytest.approx(0.92, abs=0.02)
    assert np.searchsorted(share, 0.92) / len(counts) == pytest.approx(0.03, abs=0.01)
    log_rank, log_count = np.log(np.arange(1, 301)), np.log(counts[:300])
    line = np.polyfit(log_rank, log_count, 1)
    assert -1.7 < line[0] < -1.3
    assert np.abs(log_count - np.polyval(line, log_rank)).max() < 0.3


@pytest.mark.parametrize(("rows", "groups"), [(1, 1), (2_837 * 40, 2_837), ((1 << 18) + 10, 2_837)])
def test_other_sizes_hold_as_many_groups_as_fit(
    rows: int, groups: int, tmp_path: Path, database: duckdb.DuckDBPyConnection
) -> None:
    generate("packets", rows, 5, tmp_path / "data")
    database.execute(f"CREATE TABLE Packets AS SELECT * FROM read_parquet('{tmp_path}/data/Packets/*.parquet')")
    assert group_count(database, ATTRIBUTES) == groups
