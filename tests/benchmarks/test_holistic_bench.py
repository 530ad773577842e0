"""The benchmark of holistic aggregates at a tiny size: its keys, and what must hold at any size, never times."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.holistic.hitters import accuracy, exact_top
from benchmarks.holistic.packets import findings, measure_packets
from benchmarks.holistic.quantiles import merged_errors, rank_errors
from benchmarks.holistic.traffic import DISTINCT, KINDS, SKEWED, UNIFORM, Traffic, draw
from benchmarks.holistic.truth import Exact, Question, check_answers, exact_windows, question_of
from headrace.datasets.workloads.holistic import AGGREGATES, HOLISTIC, SUMS
from headrace.model.errors import UnsupportedError
from headrace.sql import parse_query, parse_script
from tests.cli.command_line import CommandLine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKETS_KEYS = set("rows groups quantiles hitters accuracy merged findings".split())
SPARK_KEYS = set(
    "queries trades checked_rows shared_s plan_s sums_s unshared_s unshared_sampled alone_s holistic_speedup "
    "holistic_over_sums level1_rows stages sums_stages".split()
)
COST_KEYS = set(
    "traffic groups low high low_ns high_ns null_ns low_bytes shipped_bytes held_bytes total_ns low_ratio "
    "total_ratio".split()
)
CATALOG = parse_script("CREATE STREAM s (t TIMESTAMP, x DOUBLE, n BIGINT) EVENT TIME t;").catalog


def figures(path: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(path.read_text())
    return found


# The command


def test_packets(bench: CommandLine, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    small = "--part", "packets", "--rows", 3_000, "--groups", "10,100"
    outcome = bench("holistic", *small, "--plot", tmp_path / "figures.svg", "--json", tmp_path / "holistic.json")
    assert outcome.status == 0, outcome.err
    found = figures(tmp_path / "holistic.json")
    assert set(found) == PACKETS_KEYS
    assert (found["rows"], found["groups"]) == (3_000, [10, 100])
    cases = len(KINDS) * 2
    assert len(found["quantiles"]) == cases * (1 + 3 * 3 + 2)
    assert len(found["hitters"]) == cases * (3 * 4 + 3)
    for cost in (*found["quantiles"], *found["hitters"]):
        assert set(cost) == COST_KEYS
        assert min(cost[key] for key in COST_KEYS - {"traffic", "low", "high"}) > 0
        assert cost["total_ratio"] == (cost["low_ns"] + cost["high_ns"]) / cost["null_ns"]
    for shares in found["accuracy"]:
        parts = [shares[key] for key in ("correct", "off_by_one", "off_by_more", "missed")]
        assert sum(parts) == pytest.approx(1.0)
    assert (tmp_path / "figures.svg").read_text().count("<svg") == 1
    for finding in found["findings"]:
        assert finding["paper"] in outcome.out
        assert (finding["why"] in outcome.out) == (not finding["holds"])
    assert "heavy hitters, skewed packets" in outcome.out


def test_spark(bench: CommandLine, spark: SparkSession, tmp_path: Path) -> None:
    small = "--part", "spark", "--trades", 20_000, "--queries", 6, "--sample", 4
    outcome = bench("holistic", *small, "--json", tmp_path / "holistic.json")
    assert outcome.status == 0, outcome.err
    found = figures(tmp_path / "holistic.json")
    assert set(found) == SPARK_KEYS
    assert (found["queries"], found["trades"], found["unshared_sampled"]) == (6, 20_000, 4)
    assert found["checked_rows"] > 0
    assert set(found["alone_s"]) == {"percentile_approx", "heavy_hitters", "approx_count_distinct", "top_k"}
    assert found["holistic_speedup"] == found["unshared_s"] / found["shared_s"]
    assert found["holistic_over_sums"] == found["shared_s"] / found["sums_s"]
    assert "scaled to 6 queries from 4" in outcome.err
    assert spark.range(1).count() == 1, "a session that was there continues"


@pytest.mark.parametrize("groups", ["", "ten", "10,0", "10,,20"])
def test_groups_are_numbers(bench: CommandLine, groups: str) -> None:
    outcome = bench("holistic", "--groups", groups)
    assert outcome.status == 2
    assert "is not a list of numbers" in " ".join(outcome.err.split())


def test_help_teaches_the_figures(bench: CommandLine) -> None:
    taught = " ".join(bench("holistic", "--help").out.split())
    assert all(part in taught for part in ("holistic_speedup", "holistic_over_sums", "checked_rows", "accuracy"))


# Packets


def test_traffic_is_as_the_paper_describes_it() -> None:
    uniform = draw(UNIFORM, 100_000, 100)
    assert len(np.unique(uniform.keys)) == len(np.unique(uniform.lengths)) == DISTINCT[-1]
    assert uniform.lengths.mean() == pytest.approx(782, abs=5)
    sizes = np.bincount(uniform.groups, minlength=100)
    assert sizes.max() < 1.3 * sizes.min()
    skewed = draw(SKEWED, 100_000, 2_837)
    sizes = np.sort(np.bincount(skewed.groups, minlength=2_837))[::-1]
    assert sizes[: 2_837 * 3 // 100].sum() == pytest.approx(92_000, abs=1_000)


def test_levels_see_the_same_packets() -> None:
    measured = measure_packets(2_000, (5,), lambda *_: None, merges=3)
    exact = [each for each in measured.accuracy if each.distinct == 10 and each.high != "direct"]
    assert all(each.correct == 1.0 for each in exact)
    assert [each.holds for each in findings(measured) if "misses less" in each.paper] == [True]


def test_accuracy_by_place() -> None:
    lengths = [50, 40, 30, 20, 10]
    traffic = Traffic(UNIFORM, 1, 5, np.zeros(5, np.int64), np.arange(5), np.array(lengths))
    exact = {0: exact_top(traffic, 0)}
    assert exact == {0: [0, 1, 2, 3, 4]}
    found = accuracy(traffic, "direct", exact, lambda _: [0, 2, 4, 9, 3], 100)
    assert (found.correct, found.off_by_one, found.off_by_more, found.missed) == (0.2, 0.4, 0.2, 0.2)
    assert (found.bytes_per_group, found.bytes_per_packet) == (100, 20)


# Errors


def test_errors_after_merges() -> None:
    found = list(merged_errors(merges=20))
    assert {each.merges for each in found} == {0, 20}
    for each in found:
        if each.sketch == "buckets":
            assert each.value_error <= 0.01
        else:
            assert each.rank_error <= (each.proven_error or 0.01) + 1e-9
    for values in {each.values for each in found}:
        rows = {each.sketch: each.rows or 0 for each in found if each.values == values}
        assert rows["gk merged, capped"] <= max(rows["gk not merged"], 2)


#   values        1  2  2  2  5
#   ranks         1  2  3  4  5
def test_rank_errors() -> None:
    ordered = np.array([1.0, 2, 2, 2, 5])
    fractions, answers = np.array([0.2, 0.6, 1.0, 0.2, 0.8]), np.array([1.0, 2, 2, 5, 3])
    assert rank_errors(ordered, fractions, answers).tolist() == [0.0, 0.0, 0.2, 0.8, 0.0]


# Answers


def question(function: str) -> Question:
    return question_of(parse_query(f"SELECT {function} AS found FROM s [RANGE '4 s']", CATALOG))


def hitters(**counts: int) -> list[Mapping[str, Any]]:
    return [{"item": item, "lower": count, "upper": count} for item, count in counts.items()]


def test_windows_of_texts_and_numbers() -> None:
    found = exact_windows(np.array([8, 4, 8, 8]), pa.chunked_array([["b", "a"], ["a", "b"]]))
    assert {end: dict(exact.counts) for end, exact in found.items()} == {4: {"a": 1}, 8: {"a": 1, "b": 2}}
    found = exact_windows(np.array([4, 4]), pa.chunked_array([[2.5, -1.0]]))
    assert found[4].values.tolist() == [-1.0, 2.5]


def test_percentiles_within_their_rank() -> None:
    truth = {4: Exact(np.arange(1_000.0))}
    asked = question("percentile_approx(x, 0.5)")
    assert check_answers("here", asked, {4: 507.0}, truth) == 1
    with pytest.raises(RuntimeError, match=re.escape("here: found is beyond 1.0% in 1 of 1 windows, such as 520.0")):
        check_answers("here", asked, {4: 520.0}, truth)
    with pytest.raises(RuntimeError, match="0 windows instead of 1"):
        check_answers("here", asked, {}, truth)


def test_distinct_counts_within_5_percent_but_for_few() -> None:
    asked = question("approx_count_distinct(n)")
    truth = {end: Exact(np.arange(100)) for end in range(3)}
    assert check_answers("here", asked, {0: 105, 1: 95, 2: 110}, truth) == 3
    with pytest.raises(RuntimeError, match="in 2 of 3 windows"):
        check_answers("here", asked, {0: 106, 1: 95, 2: 110}, truth)


def test_hitters_are_all_there_and_bounded() -> None:
    truth = {4: Exact(np.repeat(["a", "b", "c"], [900, 95, 5]))}
    asked = question("heavy_hitters(n, 0.05)")
    assert check_answers("here", asked, {4: hitters(a=900, b=95)}, truth) == 1
    for wrong in (hitters(a=900), hitters(a=900, b=96), [{"item": "a", "lower": 890, "upper": 900}, *hitters(b=95)]):
        with pytest.raises(RuntimeError, match="is beyond"):
            check_answers("here", asked, {4: wrong}, truth)


def test_the_top_lacks_nothing_that_is_clearly_larger() -> None:
    truth = {4: Exact(np.repeat(["a", "b", "c", "d"], [500, 251, 249, 5]))}
    asked = question("top_k(n, 2)")
    assert check_answers("here", asked, {4: hitters(a=500, b=251)}, truth) == 1
    assert check_answers("here", asked, {4: hitters(a=500, c=249)}, truth) == 1
    for wrong in (hitters(a=500), hitters(a=500, d=5), hitters(b=251, c=249)):
        with pytest.raises(RuntimeError, match="is beyond"):
            check_answers("here", asked, {4: wrong}, truth)


def test_other_questions_are_refused() -> None:
    for written in ("sum(x) AS a", "percentile_approx(x, 0.5) AS a, percentile_approx(x, 0.9) AS b"):
        with pytest.raises(UnsupportedError, match="one sketch of one column"):
            question_of(parse_query(f"SELECT {written} FROM s [RANGE '4 s']", CATALOG))


# The workload


def test_the_workload_varies_all_and_its_sums_only_the_aggregate() -> None:
    def texts(script: str) -> list[tuple[str, str]]:
        return re.findall(r"SELECT (.*)\nFROM ([^;]*);", script)

    holistic, sums = texts(HOLISTIC.script(None, 1)), texts(SUMS.script(None, 1))
    assert len(holistic) == len(sums) == 64
    assert [aggregate for aggregate, _ in holistic[: len(AGGREGATES)]] == list(AGGREGATES)
    assert {aggregate for aggregate, _ in sums} == {"sum(T.Price * T.Vol) AS value"}
    assert [source for _, source in holistic] == [source for _, source in sums]
    assert len({source for _, source in holistic}) == 64
    assert len(parse_script(HOLISTIC.script(12, 2)).queries) == 12
