from __future__ import annotations

from collections.abc import Callable

import duckdb
import pytest

Load = Callable[..., duckdb.DuckDBPyConnection]


@pytest.fixture
def flows(load: Load) -> duckdb.DuckDBPyConnection:
    return load("netflow")


def distinct(flows: duckdb.DuckDBPyConnection, *expressions: str) -> int:
    return len(flows.execute(f"SELECT DISTINCT {', '.join(expressions)} FROM Flows").fetchall())


@pytest.mark.parametrize(
    ("cause", "effect"),
    [
        ("regexp_replace(SourceAddr, '[0-9]+$', '')", "SourceAS"),
        ("regexp_replace(DestAddr, '[0-9]+$', '')", "DestAS"),
        ("SourceAS", "InputInterface"),
        ("DestAS", "NextHop"),
        ("NextHop", "OutputInterface"),
    ],
)
def test_attributes_depend_on_each_other(flows: duckdb.DuckDBPyConnection, cause: str, effect: str) -> None:
    assert 1 < distinct(flows, effect) <= distinct(flows, cause) == distinct(flows, cause, effect)


def test_services_are_unequally_popular_and_keep_their_protocol(flows: duckdb.DuckDBPyConnection) -> None:
    service = "CASE WHEN SourcePort < 1024 OR SourcePort IN (1433, 3306) THEN SourcePort ELSE DestPort END"
    popular = flows.execute(f"SELECT {service}, count(*) FROM Flows GROUP BY 1 ORDER BY 2 DESC LIMIT 2").fetchall()
    assert [port for port, _ in popular] == [80, 53]
    assert popular[0][1] > 300_000
    assert flows.execute("SELECT DISTINCT Protocol FROM Flows WHERE 53 IN (SourcePort, DestPort)").fetchall() == [(17,)]
    assert flows.execute("SELECT DISTINCT SourcePort, DestPort FROM Flows WHERE Protocol = 1").fetchall() == [(0, 0)]


def test_sizes_are_heavy_tailed_and_fit_together(flows: duckdb.DuckDBPyConnection) -> None:
    wrong = "Packets < 1 OR Bytes < 40 * Packets OR Bytes > 1500 * Packets OR StartTime > Time"
    assert flows.execute(f"SELECT count(*) FROM Flows WHERE {wrong}").fetchone() == (0,)
    top = "SELECT sum(Bytes) FROM (SELECT Bytes FROM Flows ORDER BY Bytes DESC LIMIT 10000)"
    share = flows.execute(f"SELECT ({top}) / sum(Bytes), median(Packets), max(Packets) FROM Flows").fetchone()
    assert share is not None
    assert share[0] > 0.4
    assert share[1] <= 4
    assert share[2] > 10_000


def test_group_bys_reduce_the_data(flows: duckdb.DuckDBPyConnection) -> None:
    """Within 5 minutes (about 83,000 records), finer group-bys have more groups, and even fine ones reduce the data."""

    def groups(*attributes: str) -> float:
        return distinct(flows, "time_bucket(INTERVAL '5 minutes', Time)", *attributes) / 12

    protocol, ports = groups("Protocol"), groups("Protocol", "DestPort")
    systems, hosts = groups("SourceAS", "DestAS"), groups("SourceAddr", "DestAddr")
    detailed = groups("SourceAddr", "DestAddr", "SourcePort", "DestPort", "Protocol")
    assert protocol == 3
    assert 1_000 < ports < 20_000
    assert 10_000 < systems < hosts < detailed < 60_000
