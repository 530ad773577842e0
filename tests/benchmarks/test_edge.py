"""The benchmark of the edge at a tiny size: its keys, and what must hold at any size, never times."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.edge.benchmark import Simulation, findings, gap
from benchmarks.edge.drops import PAPER_LOSSES, Losses, Smallest, fewest_groups, smallest_table
from benchmarks.edge.queue import SIZES, TAKEN_SHARE, Arrivals, Costs, Setting, costs_at, measure_costs, simulate
from benchmarks.edge.speed import (
    CLUSTERED,
    FLOW_LENGTH,
    KINDS,
    PAIRS,
    ROUNDS,
    UNIFORM,
    Packets,
    Trace,
    all_with_all,
    collision_rate,
    entries_for,
    one_by_one,
    packets,
    pairs_below,
    speed,
    trace,
)
from headrace.edge.tables.tables import Flush, Replacement
from tests.cli.command_line import CommandLine

KEYS = set(
    "rows trace_rows ring load_average records_per_s records_per_s_direct records_per_s_full records_per_s_four "
    "speeds full costs smallest losses findings".split()
)
DIRECT, SECOND = Replacement.DIRECT_MAPPED, Replacement.SECOND_CHANCE
COSTS = Costs(DIRECT.value, 64, hit_ns=10, evict_ns=50, flush_ns=20, look_ns=1, ship_ns=50)
"""A hit takes 10, a collision 100, an entry at the end of a slice 70."""
SECOND_COSTS = replace(COSTS, replacement=SECOND.value)


@pytest.fixture(scope="module")
def traffic() -> Packets:
    return packets(UNIFORM, 20_000)


# The command


def test_command(bench: CommandLine, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    small = "--rows", 5_000, "--rate", 0.1, "--groups", "50,100", "--load", 0.4, "--trace-rows", 8_000, "--ring", 1_500
    files = "--plot", tmp_path / "edge.svg", "--json", tmp_path / "edge.json"
    outcome = bench("edge", *small, *files)
    assert outcome.status == 0, outcome.err
    found = json.loads((tmp_path / "edge.json").read_text())
    assert set(found) == KEYS
    assert (found["rows"], found["trace_rows"], found["ring"]) == (5_000, 8_000, 1_500)
    assert [(each["packets"], each["replacement"]) for each in found["speeds"]] == [
        (kind, each.value) for kind in KINDS for each in Replacement
    ]
    assert all(each["collision_rate"] < 0.15 for each in found["speeds"])
    assert [each["queries"] for each in found["full"]] == [4, 48] * 2
    assert found["records_per_s_full"] == round(min(each["records_per_s"] for each in found["full"][1::2]))
    assert len(found["smallest"]) == len(KINDS) * 2 * 2 * 2
    assert [each["queries"] for each in found["losses"]] == list(PAPER_LOSSES)
    assert (tmp_path / "edge.svg").read_text().count("<svg") == 1
    for finding in found["findings"]:
        assert finding["paper"] in outcome.out
        assert (finding["why"] in outcome.out) == (not finding["holds"])


def test_help_teaches_the_figures(bench: CommandLine) -> None:
    taught = " ".join(bench("edge", "--help").out.split())
    assert all(part in taught for part in ("records_per_s", "records_per_s_full", "smallest", "losses", "costs"))


# Packets


def test_clustered_packets_come_in_flows() -> None:
    codes = trace(CLUSTERED, 1_000_000, 50_000, 25_000).codes[0]
    assert len(np.unique(codes)) == pytest.approx(len(codes) / FLOW_LENGTH, rel=0.1)
    assert len(np.unique(trace(UNIFORM, 1_000_000, 50_000, 25_000).codes)) > 45_000


def test_codes_are_of_the_groups_of_the_paper(traffic: Packets) -> None:
    assert traffic.group_count("ABCD") == 2_837
    assert traffic.group_count("AB") == 1_846
    assert traffic.group_count("A") == traffic.sizes["A"]


# Speed


def test_the_phantom_gets_the_size_for_its_rate(traffic: Packets) -> None:
    for replacement in Replacement:
        entries = entries_for(traffic, replacement, 0.2)
        assert collision_rate(traffic, replacement, entries) <= 0.2 < collision_rate(traffic, replacement, entries // 2)
    assert entries_for(traffic, SECOND, 0.2) < entries_for(traffic, DIRECT, 0.2)


def test_every_group_is_sent_once_in_each_slice_that_is_over(traffic: Packets) -> None:
    found = speed(traffic, SECOND, 0.1, pairs_below(1 << 13, dict.fromkeys(PAIRS, 1 << 13)))
    assert found.collision_rate < 0.02
    groups = sum(map(traffic.group_count, PAIRS))
    assert found.partials_per_record == pytest.approx(ROUNDS / (ROUNDS + 1) * groups / len(traffic), rel=0.05)


def test_queries_of_level_one() -> None:
    assert len(one_by_one()) == 4
    assert len(set(all_with_all())) == 48
    assert set(one_by_one()) < set(all_with_all())


# Arrivals


def same_group(rows: int) -> Trace:
    return Trace(UNIFORM, 1, np.zeros((1, rows), np.int64), np.ones(rows, np.int64), rows)


def test_records_arrive_at_the_end_of_their_interval() -> None:
    arrivals = Arrivals(interval_ns=20.0)
    assert [arrivals.before(clock_ns, 3) for clock_ns in (0, 19, 20, 59.9, 60, 1e9)] == [0, 0, 1, 2, 3, 3]


def test_who_is_fast_enough_drops_nothing() -> None:
    found = simulate(Setting(DIRECT, Flush.EAGER), same_group(100_000), COSTS, Arrivals(20.0, ring=3_200))
    assert found.loss == 0
    assert found.busy == pytest.approx(0.5, rel=0.02)
    assert found.longest_queue == 1 / TAKEN_SHARE


def test_who_is_half_as_fast_drops_half() -> None:
    found = simulate(Setting(DIRECT, Flush.EAGER), same_group(100_000), COSTS, Arrivals(5.0, ring=1_000))
    assert found.loss == pytest.approx(0.5, abs=0.02)
    assert found.busy == pytest.approx(1.0, abs=0.01)
    assert found.longest_queue == 1.0


def test_more_queries_take_longer() -> None:
    busy = [
        simulate(Setting(DIRECT, Flush.EAGER, queries=queries), same_group(50_000), COSTS, Arrivals(40.0, 3_200)).busy
        for queries in (1, 3)
    ]
    assert busy[1] == pytest.approx(3 * busy[0], rel=0.02)


#   eager: about 1,000 entries x 70 ns at once, and 3,500 records arrive in that time
#   lazy:  the same while the first 1,000 records of the slice are taken from the ring
def test_a_lazy_flush_needs_less_room_than_an_eager_one() -> None:
    source, costs = trace(UNIFORM, 1_000, 40_000, 20_000), replace(COSTS, entries=2_000)
    eager, lazy = (simulate(Setting(SECOND, flush), source, costs, Arrivals(20.0, ring=3_300)) for flush in Flush)
    assert eager.loss > 0
    assert lazy.loss == 0
    assert eager.busy == pytest.approx(lazy.busy, rel=0.05), "the work is the same"


def test_a_run_ends_with_the_first_drop_when_told() -> None:
    source, arrivals = same_group(100_000), Arrivals(5.0, ring=1_000)
    found = simulate(Setting(DIRECT, Flush.EAGER), source, COSTS, arrivals, is_ended_by_drop=True)
    assert 0 < found.loss < 0.01


# Sizes


def test_the_smallest_table() -> None:
    source, arrivals, costs = trace(UNIFORM, 500, 20_000, 10_000), Arrivals(30.0, ring=1_000), [COSTS, SECOND_COSTS]
    found = {}
    for replacement in Replacement:
        setting = Setting(replacement, Flush.LAZY)
        entries = smallest_table(setting, source, costs, arrivals)
        assert entries is not None
        for size, has_drops in ((entries, False), (entries // 2, True)):
            outcome = simulate(setting, source, costs_at(costs, replacement, size), arrivals)
            assert (outcome.loss > 0) == has_drops
        found[replacement] = entries
    assert found[SECOND] < found[DIRECT]
    assert smallest_table(Setting(DIRECT, Flush.LAZY), source, costs, Arrivals(5.0, ring=1_000)) is None


def test_fewest_groups_fill_the_ring_in_a_flush() -> None:
    arrivals = Arrivals(20.0, ring=20_000)
    found = fewest_groups(Setting(SECOND, Flush.EAGER), [COSTS, SECOND_COSTS], arrivals, 200_000, 100_000)
    assert found == pytest.approx(arrivals.ring * arrivals.interval_ns / (COSTS.flush_ns + COSTS.ship_ns), rel=0.15)


def test_costs_between_sizes_that_were_measured() -> None:
    measured = [COSTS, replace(COSTS, entries=1_024, hit_ns=30), SECOND_COSTS]
    assert [costs_at(measured, DIRECT, size).hit_ns for size in (1, 64, 256, 1_024, 9_999)] == [10, 10, 20, 30, 30]
    assert costs_at(measured, DIRECT, 256).evict_ns == COSTS.evict_ns


def test_costs_are_of_the_size_that_was_asked_for() -> None:
    found = measure_costs(SECOND, min(SIZES))
    assert (found.replacement, found.entries) == (SECOND.value, min(SIZES))
    assert np.isfinite([found.hit_ns, found.evict_ns, found.flush_ns, found.look_ns, found.ship_ns]).all()


# Beside the paper


def smallest(groups: int, replacement: Replacement, entries: int | None) -> Smallest:
    return Smallest(UNIFORM, 0.4, 1e6, groups, replacement.value, Flush.LAZY.value, entries, None, None)


def found_in(direct: tuple[int | None, int | None], second: tuple[int | None, int | None], lazy: float) -> list[bool]:
    sizes = [smallest(groups, DIRECT, entries) for groups, entries in zip((10, 20), direct, strict=True)]
    sizes += [smallest(groups, SECOND, entries) for groups, entries in zip((10, 20), second, strict=True)]
    shares = {"eager": 0.02, "lazy 1": lazy}
    losses = [Losses(queries, 1e6, 10, 12, shares, shares, {"eager": 0.4}) for queries in PAPER_LOSSES]
    return [each.holds for each in findings(Simulation([], sizes, losses))]


def test_findings() -> None:
    assert found_in((20, 90), (10, 20), 0.0) == [True, True, True, True]
    assert found_in((20, None), (10, 20), 0.02) == [True, True, False, True]
    assert found_in((20, 40), (10, None), 0.03) == [False, False, False, True]
    assert found_in((20, None), (10, None), 0.03) == [True, False, False, True]
    assert (gap(None, 7), gap(7, None)) == (np.inf, 0)
