"""`headrace demo`, small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.command_line import CommandLine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_demo_answers_while_queries_come_and_go(headrace: CommandLine, spark: SparkSession) -> None:
    assert spark is not None
    outcome = headrace("demo", "--rows", 20_000, "--queries", 8)
    assert outcome.status == 0, outcome.err
    for name in ("large_trades", "busiest", "movers", "rate", "highest"):
        assert name in outcome.out
    assert "dropped otf_low_" in outcome.out
    assert "added highest, from step" in outcome.out
    assert "of 7 queries from one shared plan" in outcome.out
    assert "times as long" in outcome.out
