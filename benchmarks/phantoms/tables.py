"""Figures 5 to 15 and tables 1 to 3 of GS, printed."""

from __future__ import annotations

import rich_click as click

from benchmarks.phantoms.space import REPRESENTATIVE
from benchmarks.tables import Across, Column, Document, Row, show_lines, show_table


def show_tables(document: Document) -> None:
    show_table(
        "figure 5: collision rates by groups per bucket, and how far from the precise model",
        document["rates"],
        (Column("data", "data"), Column("relation", "relation"), Column("groups", "groups", ",")),
        Across(lambda row: f"{row['per_bucket']:g}", (Column("", rate_and_error),)),
    )
    show_models(document)
    show_divisions(document)
    show_table(
        "figure 11: modelled cost per record; GS by its entries per group",
        document["choices"],
        (
            *CASE,
            Column("none", "alone", ".2f"),
            *(Column(f"GS {phi}", ("gs", phi), ".2f") for phi in document["choices"][0]["gs"]),
            Column("GC+SL", "gc", ".2f"),
            Column("choose", "chosen", ".2f"),
            Column("best", "best", ".2f"),
            Column("ms", "choice_ms", ".1f"),
        ),
    )
    show_steps(document)
    show_table(COSTS_TITLE, document["costs"], COSTS)
    show_table(
        "figure 15: measured costs, per record and of the end of an epoch, with a limit on the latter",
        document["repairs"],
        (
            *CASE,
            Column("% of its cost", "percent"),
            Column("way", "way"),
            Column("cost", "measured", ".2f"),
            Column("without", "unlimited", ".2f"),
            Column("end", "end_measured", ",.0f"),
        ),
    )


CASE = (Column("data", "data"), Column("queries", "queries"), Column("units", "units", ","))
COSTS_TITLE = """\
figures 13 and 14: cost per record by the paper's model, by the sifted one, and measured;
then of the end of an epoch, by the model, measured, and of one entry for each group"""
COSTS = (
    Column("data", "data"),
    Column("units", "units", ","),
    Column("scheme", "scheme"),
    Column("modelled", "modelled", ".2f"),
    Column("sifted", "sifted", ".2f"),
    Column("measured", "measured", ".2f"),
    Column("end: model", "end_modelled", ",.0f"),
    Column("measured", "end_measured", ",.0f"),
    Column("groups", "end_groups", ",.0f"),
    Column("tree", "tree"),
)


def rate_and_error(row: Row) -> str:
    return f"{row['measured']:.4f} {row['measured'] / row['precise'] - 1.0:>+5.0%}"


def show_models(document: Document) -> None:
    models = document["models"]
    show_lines(
        "figure 6: what buckets of k groups add to the rate, 3,000 groups in 1,000 buckets",
        [["k", *(str(k) for k, _ in models["terms"])], ["part", *(f"{part:.3f}" for _, part in models["terms"])]],
    )
    variation = models["variation"]
    show_lines(
        "table 1: how far precise rates of 300 to 3,000 buckets are apart, by groups per bucket",
        [
            ["groups per bucket", *(f"{ratio:g}" for ratio, _ in variation)],
            ["variation", *(f"{found:.2%}" for _, found in variation)],
        ],
    )
    mean, largest, line = (document[f"{name}_error"] for name in ("parabolas_mean", "parabolas_largest", "line_mean"))
    click.echo(f"figure 7: six parabolas are off by {mean:.2%} on average, {largest:.1%} at most")
    click.echo(f"figure 8: the line of low rates is off by {line:.1%} on average\n")


def show_divisions(document: Document) -> None:
    above = [Column(name, ("above", name), ".1%") for name in document["divisions"][0]["above"]]
    show_table(
        "figures 9 and 10: cost above that of the best division",
        [row for tree in REPRESENTATIVE for row in document["divisions"] if row["tree"] == tree],
        (
            Column("tree", "tree"),
            Column("data", "data"),
            Column("units", "units", ","),
            Column("best", "best", ".2f"),
            *above,
        ),
    )
    show_table(
        "tables 2 and 3: means over all trees without a closed optimum; how often SL is best, and else how far behind",
        document["summaries"],
        (
            Column("data", "data"),
            Column("units", "units", ","),
            Column("trees", "trees"),
            *above,
            Column("SL best", "sl_best", ".0%"),
            Column("behind", "sl_behind", ".1%"),
        ),
    )


def show_steps(document: Document) -> None:
    most = max(map(len, document["steps"].values()))
    lines = [["phantoms", *map(str, range(most))]]
    for name, costs in document["steps"].items():
        lines.append([name, *(f"{cost:.2f}" for cost in costs), *[""] * (most - len(costs))])
    show_lines("figure 12: modelled cost as phantoms join", lines)
