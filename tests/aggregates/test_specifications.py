"""Every built-in aggregate is complete: known kinds, a state, a lowering, an oracle, and its documentation."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from headrace.aggregates.registry import AGGREGATE_SYNONYMS, AGGREGATES, BUILT_IN, KINDS, make_aggregate
from headrace.aggregates.specification import PartialKind, Specification
from headrace.expressions.functions import FUNCTIONS, SYNONYMS
from headrace.kernel.states.kinds import LOWERINGS, SIZED, STATES
from headrace.model.expressions import ColumnRef
from headrace.model.types import DOUBLE
from headrace.reference.aggregates import LOWER, SKETCHES

QUERY_LANGUAGE = (Path(__file__).parents[2] / "docs" / "query-language.md").read_text()
DOCUMENTED = set(re.findall(r"`(\w+)[`(]", QUERY_LANGUAGE))

specifications = pytest.mark.parametrize("specification", BUILT_IN, ids=lambda specification: specification.name)
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)


def test_names_are_unique() -> None:
    names = [name for specification in BUILT_IN for name in (specification.name, *specification.synonyms)]
    names += [*FUNCTIONS, *SYNONYMS]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert AGGREGATE_SYNONYMS.keys().isdisjoint(AGGREGATES)


@specifications
def test_kinds_are_known(specification: Specification) -> None:
    assert specification.kinds
    assert all(KINDS[kind.name] is kind for kind in specification.kinds)


@specifications
def test_a_state_can_be_lowered(specification: Specification) -> None:
    assert specification.name in LOWERINGS


@specifications
def test_the_reference_knows_it(specification: Specification) -> None:
    """A sketch itself is nothing that the reference could compute."""
    assert specification.name in LOWER or specification.name in SKETCHES


@specifications
def test_it_is_documented(specification: Specification) -> None:
    assert {specification.name, *specification.synonyms} <= DOCUMENTED


@specifications
def test_sizes_are_of_kinds_that_have_some(specification: Specification) -> None:
    if specification.wanted_size is not None:
        assert specification.first_parameter is not None
        assert specification.kinds[0].default_size > 0


@specifications
def test_another_aggregate_over_states_is_known(specification: Specification) -> None:
    assert specification.over_states is None or specification.over_states in AGGREGATES


@kinds
def test_a_kind_has_a_state(kind: PartialKind) -> None:
    assert kind.name in STATES
    assert (kind.default_size > 0) == (kind.name in SIZED)


@kinds
def test_traits_fit_together(kind: PartialKind) -> None:
    assert kind.equality in ("exact", "close", "bounded")
    assert (kind.equality == "bounded") == (kind.error > 0)
    assert kind.default_size == 0 or kind.items is not None


def test_no_state_and_no_lowering_is_left_over() -> None:
    assert STATES.keys() == KINDS.keys()
    assert LOWERINGS.keys() == AGGREGATES.keys()


def test_distinct_is_refused_where_it_is_not_allowed() -> None:
    column = ColumnRef("s", "x", DOUBLE)
    with pytest.raises(ValueError, match="takes no DISTINCT"):
        make_aggregate("min_by", (column, column), is_distinct=True)
