"""What is stored keeps its text, whatever the program calls its classes and fields."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import pytest

from headrace.aggregates.partials import Partial
from headrace.kernel.interchange import node_id
from headrace.model.expressions import Aggregate, Call, ColumnRef, Expression, Literal
from headrace.model.stable_names import CLASSES, LABELS, TAGS, stable_text
from headrace.model.types import BIGINT, BOOLEAN, STRING, decimal
from headrace.planner import codec as encoding  # noqa: F401 - registers all that a plan is made of
from headrace.planner.lattice import Node
from headrace.predicates import Dimension, Predicate
from headrace.predicates.dimensions import Cut, Kind
from headrace.windows import Boundaries

COLUMN = ColumnRef("s", "a", BIGINT)
BIGINT_TEXT = "DataType(name='BIGINT', precision=0, scale=0, fields=())"
COLUMN_TEXT = f"ColumnRef(relation='s', name='a', type={BIGINT_TEXT})"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (COLUMN, COLUMN_TEXT),
        (Literal(None, BIGINT), f"Literal(value=None, type={BIGINT_TEXT})"),
        (
            Literal(Decimal("1.50"), decimal(3, 2)),
            "Literal(value=Decimal('1.50'), type=DataType(name='DECIMAL', precision=3, scale=2, fields=()))",
        ),
        (Call("abs", (COLUMN,), BIGINT), f"Call(function='abs', arguments=({COLUMN_TEXT},), type={BIGINT_TEXT})"),
        (
            Aggregate("count", (), BIGINT),
            f"Aggregate(function='count', arguments=(), type={BIGINT_TEXT}, "
            "distinct=False, filter=None, parameters=())",
        ),
        ((Cut(5), Cut(1.5, above=True)), "(Cut(value=5, above=False), Cut(value=1.5, above=True))"),
        ([Boundaries(10, (0, 5))], "[Boundaries(period_us=10, residues_us=(0, 5))]"),
        (Partial("sum", (COLUMN,)), f"Partial(kind='sum', arguments=({COLUMN_TEXT},), filter=None, size=0)"),
    ],
)
def test_text_of_digests_is_frozen(value: object, text: str) -> None:
    assert stable_text(value) == text


def test_node_ids_are_frozen() -> None:
    above: Expression = Call(">=", (COLUMN, Literal(5, BIGINT)), BOOLEAN)
    node = Node(
        boundaries=(Boundaries(10_000_000, (0,)),),
        dimensions=(Dimension(COLUMN, Kind.INTERVAL, (Cut(5),)),),
        keep=frozenset({Predicate(above)}),
        groups=frozenset({ColumnRef("s", "b", STRING)}),
        partials=frozenset({Partial("sum", (COLUMN,)), Partial("count", ())}),
    )
    assert node_id("s", node) == "97f4b375de5a4c6fdb08540e"


def test_stored_names_are_frozen() -> None:
    names = {tag: [label for label, _ in LABELS[made]] for tag, made in CLASSES.items()}
    assert {made: tag for tag, made in CLASSES.items()} == TAGS
    assert names == {
        "Aggregate": ["function", "arguments", "type", "distinct", "filter", "parameters"],
        "Answer": ["leaf", "place", "cost_ns"],
        "Ask": ["query", "window", "partials"],
        "Boundaries": ["period_us", "residues_us"],
        "Call": ["function", "arguments", "type"],
        "ColumnRef": ["relation", "name", "type"],
        "Cut": ["value", "above"],
        "DataType": ["name", "precision", "scale", "fields"],
        "Demand": ["window", "predicate", "groups", "partials"],
        "Dimension": ["expression", "kind", "marks"],
        "Join": ["table", "relation", "keys", "outer"],
        "JoinKey": ["expression", "column"],
        "Leaf": ["node", "asks"],
        "Literal": ["value", "type"],
        "Node": ["boundaries", "dimensions", "keep", "groups", "partials"],
        "Order": ["expression", "descending", "nulls_first"],
        "Output": ["name", "expression", "is_local"],
        "Partial": ["kind", "arguments", "filter", "size"],
        "Plan": ["nodes", "answers", "demands", "coding_ns", "alone_ns"],
        "PlannedNode": ["node", "parent", "rows", "cost_ns", "compressed"],
        "Predicate": ["tree"],
        "Query": ["stream", "window", "outputs", "joins", "where", "group_by", "having", "order_by", "limit"],
        "SlicedWindow": ["slices_us", "offset_us"],
        "Window": ["range_us", "slide_us", "offset_us"],
    }


def test_values_without_a_tag_have_no_stable_text() -> None:
    @dataclass(frozen=True)
    class Other:
        size: int

    for value in (Other(1), {1, 2}, Kind.INTERVAL):
        with pytest.raises(TypeError, match="no stable text"):
            stable_text(value)
