"""The benchmark commands at a small size: their keys and what must hold at any size, never their times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine


def figures(path: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads(path.read_text())
    return found


def test_planner(bench: CommandLine, tmp_path: Path) -> None:
    small = "--instances", 8, "--unshared-instances", 8, "--queries", 16, "--queries", 24, "--rows", 20_000
    outcome = bench("planner", *small, "--json", tmp_path / "planner.json")
    assert outcome.status == 0, outcome.err
    found = figures(tmp_path / "planner.json")
    assert found["mean_ratio"] <= 1.05
    assert found["worst_ratio"] <= 1.30
    assert found["above_unshared"] == 0
    assert {"plan_16_s", "plan_24_s", "gain_16", "add_one_ms", "drop_one_ms", "drawn_worst_ratio"} <= set(found)
    assert "mean_ratio" in outcome.out


def test_counts(bench: CommandLine, tmp_path: Path) -> None:
    outcome = bench("counts", "--queries", 16, "--rows", 20_000, "--json", tmp_path / "counts.json")
    assert outcome.status == 0, outcome.err
    found = json.loads((tmp_path / "counts.json").read_text())
    assert set(found) == {"otf-windows", "otf-predicates", "otf-regular", "otf-low"}
    for workload in found.values():
        ours = workload["counted"]["our plan"]
        assert ours["partial"] + ours["final"] > 0
        assert all(fewer > 0 for fewer in workload["fewer"].values())
        assert workload["predicted_gain"] > 1
    assert found["otf-low"]["paper"]["shared shards"] == {"partial": 1_294_064, "final": 63_984_043}


def test_nfc(bench: CommandLine, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sizes = "--rows", 20_000, "--queries", 8
    outcome = bench("nfc", *sizes, "--plot", tmp_path / "nfc.svg", "--json", tmp_path / "nfc.json")
    assert outcome.status == 0, outcome.err
    found = json.loads((tmp_path / "nfc.json").read_text())["runs"]
    assert [(each["workload"], each["queries"]) for each in found][-1] == ("nfc-random", 8)
    for each in found:
        assert 1 <= each["factor"] == each["naive"] / each["executed"]
        assert each["predicted_factor"] == pytest.approx(each["factor"], rel=0.05), "the sample holds all rows"
        if each["workload"] == "nfc-flowcollector":
            assert each["factor"] <= each["best_factor"] * 1.000001
    assert (tmp_path / "nfc.svg").read_text().lstrip().startswith("<?xml")
    again = bench("plot", tmp_path / "nfc.json", "--out", tmp_path / "again.png")
    assert again.status == 0, again.err
    assert (tmp_path / "again.png").stat().st_size > 0


def test_figures_without_a_picture_are_refused(bench: CommandLine, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "planner.json").write_text('{"mean_ratio": 1.0}')
    outcome = bench("plot", tmp_path / "planner.json", "--out", tmp_path / "planner.svg")
    assert outcome.status == 1
    assert "nothing to draw" in outcome.err


@pytest.mark.parametrize(
    ("workload", "queries"),
    [("low", 8), ("windows", 8), ("predicates", 8), ("regular", 9), ("grouped", 8), ("syn", 8)],
)
def test_kernel(bench: CommandLine, tmp_path: Path, workload: str, queries: int) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("polars")
    small = "--workload", workload, "--rows", 20_000, "--queries", queries, "--sample", 2
    outcome = bench("kernel", *small, "--json", tmp_path / "kernel.json")
    assert outcome.status == 0, outcome.err
    found = json.loads((tmp_path / "kernel.json").read_text())
    assert found["workload"] == workload
    assert (found["queries"], found["rows"], found["peer_sampled"]) == (queries, 20_000, 2)
    assert found["checked_rows"] > 0
    assert 0 < found["apart_rows"] <= 20_000
    times = "plan_s", "kernel_s", "kernel_threads_s", "rows_per_s", "rows_per_s_one_query", "polars_s", "duckdb_s"
    assert all(found[key] > 0 for key in (*times, "lattice_gain", "polars_gain", "duckdb_gain"))
    assert found["level1_share"] == found["level1_rows"] / found["rows"] > 0
    assert found["peak_mb"] >= 0


def test_kernel_help_teaches_workloads_and_figures(bench: CommandLine) -> None:
    taught = " ".join(bench("kernel", "--help").out.split())
    for part in ("grouped", "syn", "level1_rows", "peak_mb"):
        assert part in taught


def test_a_picture_that_can_not_be_drawn_is_an_error(bench: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    small = ("nfc", "--rows", 2_000, "--queries", 2)
    outcome = bench(*small, "--plot", tmp_path / "file" / "factors.svg")
    assert outcome.status == 1
    assert f"error[file]: can't write {tmp_path / 'file'}" in outcome.err
    unknown = bench(*small, "--plot", tmp_path / "factors.gif")
    assert unknown.status == 2
    assert "does not end in .svg, .png or .pdf" in unknown.err
    assert unknown.out == "", "nothing was measured"
