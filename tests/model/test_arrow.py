"""Results as tables for people."""

from __future__ import annotations

from datetime import UTC, datetime

from headrace.model.address import parse_address
from headrace.model.arrow import from_rows
from headrace.model.schema import Column
from headrace.model.types import ADDRESS, TIMESTAMP


def test_results_can_be_opened_by_people() -> None:
    columns = [Column("t", TIMESTAMP), Column("a", ADDRESS)]
    table = from_rows([(0, parse_address("10.0.0.1")), (None, None)], columns)
    assert table.to_pylist() == [{"t": datetime(1970, 1, 1, tzinfo=UTC), "a": "10.0.0.1"}, {"t": None, "a": None}]
