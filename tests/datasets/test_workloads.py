from __future__ import annotations

import re
from collections import Counter

import pytest

from headrace.datasets import KINDS, WORKLOADS, workload
from headrace.model.errors import UsageError
from headrace.sql import parse_script

DEFAULTS = {
    "otf-windows": ("trades", 256),
    "otf-predicates": ("trades", 256),
    "otf-regular": ("trades", 256),
    "otf-low": ("trades", 256),
    "holistic": ("trades", 64),
    "holistic-sums": ("trades", 64),
    "hifi-grouped": ("syn", 32),
    "hifi-ungrouped": ("syn", 32),
    "nfc-flowcollector": ("netflow", 14),
    "nfc-random": ("netflow", 64),
    "gs-single": ("packets", 4),
    "gs-pairs": ("packets", 4),
    "grouped": ("netflow", 128),
}
COLLECTOR = (
    "SourceNode", "DestNode", "HostMatrix", "SourcePort", "DestPort", "Protocol", "DetailSourceNode", "DetailDestNode",
    "DetailHostMatrix", "CallRecord", "DetailInterface", "ASMatrix", "NetMatrix", "DetailASMatrix",
)  # fmt: skip


def queries(name: str, count: int | None = None, seed: int = 1) -> dict[str, str]:
    """Return the SELECTs of a workload by query name."""
    found = re.findall(r"^CREATE QUERY (\w+) AS\n(SELECT [^;]*);$", workload(name, count, seed), re.MULTILINE)
    assert len({query for query, _ in found}) == len(found)
    return dict(found)


def windows(name: str, count: int | None = None, seed: int = 1) -> list[tuple[int, int]]:
    return [
        (int(range_s), int(slide_s))
        for range_s, slide_s in re.findall(r"\[RANGE '(\d+) s' SLIDE '(\d+) s'\]", workload(name, count, seed))
    ]


def predicates(name: str, count: int | None = None, seed: int = 1) -> list[str]:
    return re.findall(r"X\.R\d000 = .*(?=;)", workload(name, count, seed))


def test_the_table_holds_the_workloads() -> None:
    assert {name: (each.kind, each.default_queries) for name, each in WORKLOADS.items()} == DEFAULTS
    assert all(each.summary and name == each.name for name, each in WORKLOADS.items())


@pytest.mark.parametrize("name", DEFAULTS)
def test_scripts_begin_with_the_schema_and_parse(name: str) -> None:
    kind, count = DEFAULTS[name]
    text = workload(name, None, 1)
    assert text.startswith(KINDS[kind].schema_sql + "\n")
    script = parse_script(text)
    assert [query.name for query in script.queries] == list(queries(name))
    assert len(script.queries) == count
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", query) or query in COLLECTOR for query in queries(name))


@pytest.mark.parametrize("name", DEFAULTS)
def test_scripts_depend_on_the_seed_alone(name: str) -> None:
    assert workload(name, None, 1) == workload(name, None, 1)
    if name not in ("nfc-flowcollector", "gs-single", "gs-pairs"):
        assert workload(name, None, 1) != workload(name, None, 2)


@pytest.mark.parametrize("name", DEFAULTS)
def test_fewer_queries(name: str) -> None:
    assert len(queries(name, 4)) == 4


@pytest.mark.parametrize("seed", [1, 7, 42])
def test_otf_windows(seed: int) -> None:
    drawn = windows("otf-windows", seed=seed)
    assert len(set(drawn)) == len(drawn) == 256
    assert all(600 <= range_s <= 900 and 300 <= slide_s <= 600 for range_s, slide_s in drawn)
    assert predicates("otf-windows", seed=seed) == []
    assert all("T.Symbol = C.Symbol AND T.Symbol = X.Symbol" in query for query in queries("otf-windows").values())


@pytest.mark.parametrize("seed", [1, 7, 42])
def test_otf_predicates_cover_table_8_evenly(seed: int) -> None:
    drawn = predicates("otf-predicates", seed=seed)
    assert len(set(drawn)) == len(drawn) == 256
    assert set(windows("otf-predicates", seed=seed)) == {(600, 600)}
    parts = [re.fullmatch(r"X\.(\w+) = (TRUE|FALSE) AND (.*) ([<>]) (\d+|0\.\d+)", predicate) for predicate in drawn]
    for group, choices in ((1, 3), (2, 2), (3, 3), (4, 2)):
        counts = Counter(part[group] for part in parts if part)
        assert len(counts) == choices
        assert all(0.7 < count * choices / 256 < 1.3 for count in counts.values())


@pytest.mark.parametrize("count", [16, 36, 64, 144, 256])
def test_otf_regular_combines_every_window_with_every_predicate(count: int) -> None:
    pairs = list(zip(windows("otf-regular", count), predicates("otf-regular", count), strict=True))
    side = round(count**0.5)
    assert len(set(pairs)) == len(pairs) == count
    assert len({window for window, _ in pairs}) == len({predicate for _, predicate in pairs}) == side


@pytest.mark.parametrize("seed", [1, 7, 42])
def test_otf_low_repeats_nothing(seed: int) -> None:
    assert len(set(windows("otf-low", seed=seed))) == len(set(predicates("otf-low", seed=seed))) == 256


@pytest.mark.parametrize("name", ["hifi-grouped", "hifi-ungrouped"])
@pytest.mark.parametrize("seed", range(20))
def test_hifi_windows_share_a_slide(name: str, seed: int) -> None:
    drawn = windows(name, seed=seed)
    (slide_s,) = {slide_s for _, slide_s in drawn}
    assert 1_000 <= slide_s <= 2_000
    assert all(max(1_500, slide_s) <= range_s <= 2_500 for range_s, _ in drawn)
    assert len({range_s for range_s, _ in drawn}) > 20
    assert all(("GROUP BY S.SrcIP" in query) == (name == "hifi-grouped") for query in queries(name).values())


def test_flow_collector_queries() -> None:
    selects = queries("nfc-flowcollector")
    assert tuple(selects) == COLLECTOR
    assert set(windows("nfc-flowcollector")) == {(300, 300)}
    assert selects["CallRecord"].endswith("GROUP BY SourceAddr, DestAddr, SourcePort, DestPort, Protocol, ToS")
    assert "ip_prefix(SourceAddr, 24) AS SourceNet" in selects["NetMatrix"]
    assert all("sum(Packets) AS packets, sum(Bytes) AS bytes, count(*) AS flows" in text for text in selects.values())
    assert tuple(queries("nfc-flowcollector", 3)) == COLLECTOR[:3]


def test_random_queries_differ_in_attributes_and_filters() -> None:
    selects = list(queries("nfc-random").values())
    assert len({text.partition("GROUP BY ")[2] for text in selects}) > 40
    filters = [line for text in selects for line in text.splitlines() if line.startswith("WHERE")]
    assert 30 < len(filters) < 60
    assert any(" OR " in line for line in filters)


def test_gigascope_queries_group_by_epoch() -> None:
    assert queries("gs-single")["source_ip"] == (
        "SELECT tb, SourceIP, count(*) AS packets\nFROM Packets\nGROUP BY Time/5 AS tb, SourceIP"
    )
    assert list(queries("gs-pairs")) == [
        "source_ip_dest_ip", "dest_ip_source_port", "dest_ip_dest_port", "source_port_dest_port",
    ]  # fmt: skip


def test_grouped_has_every_pair_of_group_by_and_predicate() -> None:
    def pair(text: str) -> tuple[str, str]:
        where = re.search(r"^WHERE .*$", text, re.MULTILINE)
        return text.partition("GROUP BY ")[2], where[0] if where else ""

    pairs = [pair(text) for text in queries("grouped", 200).values()]
    assert len({group_by for group_by, _ in pairs}) == 16
    assert len({where for _, where in pairs}) == 8
    assert len(set(pairs)) == len(set(pairs[:128])) == 128
    assert len({where for _, where in pairs[:8]}) == 8
    assert all(slide_s <= range_s for range_s, slide_s in windows("grouped"))


@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        ("otf", None, "unknown workload 'otf'"),
        ("otf-low", 0, "1 to 10000 queries"),
        ("otf-regular", 250, "as many windows as predicates.*(.|\n)*225 or 256"),
        ("nfc-flowcollector", 15, "1 to 14 queries"),
        ("gs-pairs", 5, "1 to 4 queries"),
    ],
)
def test_refused(name: str, count: int | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        workload(name, count, 1)
