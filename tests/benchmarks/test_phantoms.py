"""The benchmark of phantoms at a tiny size: its keys, and what must hold at any size, never times."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.phantoms.choice import Instance, join_phantoms, one_by_one
from benchmarks.phantoms.exhaustive import ALLOCATIONS, best_configuration
from benchmarks.phantoms.model import cost
from benchmarks.phantoms.rates import (
    CLUSTERED,
    SAME_FLOW,
    SYNTHETIC,
    UNIFORM,
    Stream,
    count_slice,
    group_numbers,
    mean_flow_length,
    measure_costs,
    models,
    observe_sizes,
    packets,
    rates_of,
    relabel,
    term,
)
from benchmarks.phantoms.space import best_of_all, division, notation, summary, trees_of
from headrace.datasets.packets import GROUPS_A, GROUPS_ABCD
from headrace.datasets.workloads.gigascope import PAIRS, SINGLE
from headrace.planner.phantoms.allocation import supernode_linear
from headrace.planner.phantoms.collisions import precise
from headrace.planner.phantoms.configuration import Configuration, EdgeTable
from tests.cli.command_line import CommandLine
from tests.planner.phantoms.instances import paper_sizes

SCALARS = set(
    "collision_points collision_within_5_percent collision_within_5_percent_one_hash "
    "collision_within_5_percent_packets collision_over_model_clustered rate_variation parabolas_mean_error "
    "parabolas_largest_error line_mean_error trees sl_over_es sr_over_es pl_over_es pr_over_es sl_over_es_largest "
    "sl_over_es_closed choices gc_within_20_percent_of_epes gc_over_epes gc_over_epes_largest "
    "choice_over_epes_largest gc_above_gs choice_above_gs gc_ms choice_ms gc_measured_over_epes_uniform "
    "gc_measured_over_epes_clustered gs_measured_over_epes_uniform gs_measured_over_epes_clustered "
    "measured_gain_uniform measured_gain_clustered gain_limit_uniform gain_limit_clustered rows hashes".split()
)
SECTIONS = set("units rates models divisions summaries choices steps costs repairs findings".split())


def stream_of(*rows: list[int]) -> Stream:
    values, attributes = np.array(rows), "ABCD"[: len(rows)]
    return Stream(UNIFORM, attributes, values, observe_sizes(attributes, values, has_flows=False))


def one_query(entries: int) -> Configuration:
    return Configuration((EdgeTable(frozenset("A"), None, True, entries),))


# The command


def test_the_command(bench: CommandLine, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    small = "--rows", 20_000, "--units", 40_000, "--hashes", 1
    outcome = bench("phantoms", *small, "--plot", tmp_path / "figures.svg", "--json", tmp_path / "phantoms.json")
    assert outcome.status == 0, outcome.err
    found = json.loads((tmp_path / "phantoms.json").read_text())
    assert set(found) == SCALARS | SECTIONS
    assert (found["rows"], found["units"], found["hashes"]) == (20_000, [40_000], 1)
    assert min(found[f"{name}_over_es"] for name in ("sl", "sr", "pl", "pr")) == found["sl_over_es"] >= 1.0
    assert found["gc_within_20_percent_of_epes"] == 1.0
    assert found["gc_above_gs"] == found["choice_above_gs"] == 0
    for choice in found["choices"]:
        # GC may take more phantoms than are tried for the best
        assert choice["best"] <= min(choice["chosen"], choice["gc"], choice["alone"]) * 1.01
    for data in (UNIFORM, CLUSTERED):
        assert 1.0 < found[f"measured_gain_{data}"] <= found[f"gain_limit_{data}"]
    assert (tmp_path / "figures.svg").read_text().count("<svg") == 1
    for finding in found["findings"]:
        assert finding["paper"] in outcome.out
        assert (finding["why"] in outcome.out) == (not finding["holds"])
    for number in (*range(5, 9), "9 and 10", 11, 12, "13 and 14", 15):
        assert f"figure {number}" in outcome.out or f"figures {number}" in outcome.out
    assert "table 1" in outcome.out
    assert "tables 2 and 3" in outcome.out


def test_help_teaches_the_figures(bench: CommandLine) -> None:
    taught = bench("phantoms", "--help").out
    assert all(name in taught for name in ("collision_within_5_percent", "sl_over_es", "gc_above_gs", "choice_ms"))


# Streams and what tables count


def test_packets_have_the_papers_groups() -> None:
    found = packets(CLUSTERED, 200_000)
    assert found.sizes.groups_of(frozenset("A")) == GROUPS_A
    assert found.sizes.groups_of(frozenset("ABCD")) == GROUPS_ABCD
    assert found.sizes.flow_length_of(frozenset("ABCD")) == pytest.approx(32.0, rel=0.05)


def test_a_flow_ends_when_its_group_stays_away() -> None:
    together = np.array([0, 1] * 4)
    assert mean_flow_length(together) == 4.0
    apart = np.concatenate([together, np.full(SAME_FLOW, 2), together])
    assert mean_flow_length(apart) == len(apart) / 5


def test_other_codes_are_the_same_groups() -> None:
    stream = stream_of([0, 1, 2, 1], [0, 0, 1, 0])
    for halves in relabel(stream.values, 3):
        codes = np.concatenate(halves, axis=1)
        assert codes[0, 1] == codes[0, 3]
        assert len(set(codes[0].tolist())) == 3
        assert group_numbers(codes).max() == group_numbers(stream.values).max()


def test_costs_are_probes_and_evictions_of_the_second_half() -> None:
    still = measure_costs(one_query(1), stream_of([0] * 8), 2)
    assert (still.maintenance, still.end_of_epoch) == (1.0, 50.0)
    restless = measure_costs(one_query(1), stream_of([0, 1] * 4), 2)
    assert (restless.maintenance, restless.end_of_epoch) == (51.0, 50.0)


def test_a_phantom_pays_no_evictions_and_its_queries_no_probes_without_them() -> None:
    tables = [EdgeTable(frozenset("AB"), None, False, 1), *(EdgeTable(frozenset(name), 0, True, 1) for name in "AB")]
    found = measure_costs(Configuration(tuple(tables)), stream_of([0, 1] * 4, [0, 0] * 4), 1)
    # Each record pushes one out of AB, which is a probe at A and at B, and one out of A
    assert found.maintenance == 3.0 + 50.0
    # AB is emptied into both: A loses what it has and what it gets, B has the group already
    assert found.end_of_epoch == 2.0 + 3 * 50.0


# Rates


def test_rates_are_those_of_the_model() -> None:
    values = np.random.default_rng(3).integers(0, 300, (1, 20_000))
    for rate in rates_of(SYNTHETIC, "A", values, 300, 1.0, 6):
        if rate.per_bucket >= 2.0:
            assert rate.error < 0.05
        assert rate.rough <= rate.precise


def test_counts_are_of_the_records_after_the_first_half() -> None:
    (halves,) = relabel(stream_of([0] * 5 + [1] * 5).values, 1)
    running, ended = count_slice(one_query(1), "A", halves)
    assert (running[0].probes, running[0].collisions, running[0].evictions) == (5, 1, 1)
    assert ended[0].evictions == 1


def test_terms_add_up_to_the_rate() -> None:
    assert sum(term(300, 100, k) for k in range(2, 301)) == pytest.approx(float(precise(300, 100)))
    found = models()
    assert max(found.terms, key=lambda each: each[1])[0] == 4
    assert found.largest_variation < 0.015
    assert found.line_error < 0.06


# Space and choices


def test_phantoms_of_the_papers_trees_feed_two_tables() -> None:
    trees = list(trees_of(PAIRS, paper_sizes()))
    names = [notation(tree) for tree in trees]
    assert len(set(names)) == len(names)
    assert "ABCD(BCD(BC BD CD) AB)" in names
    assert "AB BC BD CD" in names
    assert all(len(below) != 1 for tree in trees for below in tree.children)


def test_no_closed_form_is_below_the_best_division() -> None:
    trees = list(trees_of(PAIRS, paper_sizes()))
    found = [division(UNIFORM, tree, 60_000) for tree in trees]
    assert sum(each.has_closed_optimum for each in found) == 2
    assert all(above >= 0.0 for each in found for above in each.above.values())
    found_summary = summary(UNIFORM, 60_000, found)
    assert found_summary.trees == len(trees)
    assert found_summary.above["SL"] == min(found_summary.above.values())
    lost = [each for each in found if each.above["SL"] > min(each.above.values()) + 1e-6]
    assert found_summary.sl_best == 1.0 - len(lost) / len(trees)
    assert set(found_summary.above) == set(ALLOCATIONS)


@pytest.mark.parametrize("units", [5_000, 20_000, 60_000])
def test_the_best_of_all_is_among_the_trees_that_are_tried(units: int) -> None:
    sizes, memory_bytes = paper_sizes(), 4 * units
    quick = cost(best_of_all("ABC", sizes, memory_bytes), sizes).maintenance
    assert quick == cost(best_configuration("ABC", sizes, memory_bytes), sizes).maintenance


def test_phantoms_join_from_none_to_those_chosen() -> None:
    asked = Instance(Stream(UNIFORM, "ABCD", np.empty((4, 0), dtype=np.int64), paper_sizes()), SINGLE, 40_000)
    costs = one_by_one(asked)["GC+SL"]
    assert costs == join_phantoms(asked, asked.by_rates(), supernode_linear)
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == pytest.approx(asked.compute_cost(asked.alone()))
    assert costs[-1] == pytest.approx(asked.compute_cost(asked.by_rates()))
