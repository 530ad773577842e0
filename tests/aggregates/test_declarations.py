"""Declarations in the form of the paper and of GS-lite, what classes declare, and how both come together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aggregates.class_checks import declare
from headrace.aggregates.declarations import (
    AggregateDeclaration,
    ExtractorDeclaration,
    bind_classes,
    parse_declarations,
)
from headrace.aggregates.laws import user_aggregate
from headrace.aggregates.user import UserAggregate, extractor
from headrace.model.errors import HeadraceError, QueryError, UsageError
from headrace.model.types import ADDRESS, BIGINT, DOUBLE, STRING, decimal
from tests.aggregates.sums import Buffer, High, Sum

MEDIAN = AggregateDeclaration("approx_median", BIGINT, (BIGINT,), "low_approx_med", "high_approx_med")


# The paper's form


@pytest.mark.parametrize(
    "text",
    [
        "int UDAF [low_approx_med, high_approx_med] approx_median(int)",
        "int UDAF char(36) [low_approx_med, high_approx_med] approx_median(int)",
        "INT udaf [SUBAGGR low_approx_med, SUPERAGGR high_approx_med] approx_median fstring36 (uint);",
        "/* a\nb */ bigint UDAF[low_approx_med,high_approx_med]approx_median(long); -- the end",
    ],
)
def test_one_aggregate_in_all_forms(text: str) -> None:
    assert parse_declarations(text) == (MEDIAN,)


def test_the_declarations_of_the_paper() -> None:
    declarations = parse_declarations("""
        int UDAF char(36) [low_approx_med, high_approx_med] approx_median(int)
        vstring UDAF char(2800) low_approx_med(int)
        int UDAF char(36) high_approx_med(vstring)
        vstring UDAF char(500) approx_quantile(int)
        int EXTR percentile_fcn approx_quantile percentile(int; int)
    """)
    assert declarations == (
        MEDIAN,
        AggregateDeclaration("low_approx_med", STRING, (BIGINT,)),
        AggregateDeclaration("high_approx_med", BIGINT, (STRING,)),
        AggregateDeclaration(
            "approx_quantile",
            STRING,
            (BIGINT,),
            extractors=(ExtractorDeclaration("percentile", "percentile_fcn", BIGINT, (BIGINT,)),),
        ),
    )


def test_gs_lite_names_the_function_last() -> None:
    (declaration,) = parse_declarations("""
        string UDAF [SUBAGGR a, SUPERAGGR b] quantiles fstring32 (uint);
        uint EXTR quantile_of quantiles extr_fn (uint, float);
        float EXTR spread_of QUANTILES spread_fn (uint);
    """)
    assert (declaration.subaggregate, declaration.superaggregate) == ("a", "b")
    assert declaration.extractors == (
        ExtractorDeclaration("quantile_of", "extr_fn", BIGINT, (DOUBLE,)),
        ExtractorDeclaration("spread_of", "spread_fn", DOUBLE, ()),
    )


def test_types_of_gigascope_and_of_sql() -> None:
    (declaration,) = parse_declarations("DECIMAL(9, 2) UDAF f(ip, ullong, char(5), decimal(4), DOUBLE)")
    assert declaration.returns == decimal(9, 2)
    assert declaration.arguments == (ADDRESS, BIGINT, STRING, decimal(4, 0), DOUBLE)


def test_nothing_is_declared_by_an_empty_text() -> None:
    assert parse_declarations(" -- nothing\n // at all") == ()


@pytest.mark.parametrize(
    ("text", "spot", "message"),
    [
        ("int UDAF", "", "expected the aggregate's name"),
        ("int FUN f(int)", "FUN", "expected UDAF or EXTR"),
        ("inr UDAF f(int)", "inr", "'inr' is not a type"),
        ("int UDAF f(intt)", "intt", "'intt' is not a type"),
        ("int UDAF f()", "(", "takes arguments"),
        ("int UDAF f(int; int)", "(", "takes arguments"),
        ("int UDAF [a] f(int)", "]", "expected ,"),
        ("int UDAF [a, b f(int)", "f", "expected ]"),
        ("int UDAF f(int int)", "int)", "expected ,"),
        ("int UDAF f(int", "", "expected )"),
        ("int UDAF f(int) int UDAF F(int)", "F(", "F is declared twice"),
        ("int UDAF f(int) int EXTR g h e(int)", "h", "no aggregate 'h' is declared"),
        ("int UDAF f(int) int EXTR g f e(float)", "(float", "must begin with the arguments of f: BIGINT"),
        ("int UDAF f(int) int EXTR g f e(int, int; int)", "(int, int;", "must begin with the arguments of f"),
        ("int UDAF f(int) ?", "?", "no part of a declaration"),
        ("int UDAF f(decimal(99, 2))", "decimal", "1 to 38 digits"),
        ("int UDAF f(decimal(1, 2, 3))", "decimal", "1 to 38 digits"),
        ("/* int UDAF f(int)", "/", "no part of a declaration"),
    ],
)
def test_mistakes_are_told_at_their_spot(text: str, spot: str, message: str) -> None:
    with pytest.raises(QueryError) as refused:
        parse_declarations(text)
    error = refused.value
    assert error.code == "udaf-declaration"
    assert message in error.message
    assert error.span is not None
    assert text[error.span.start :].startswith(spot)
    assert "^" in str(error)


def test_a_near_name_is_offered() -> None:
    refused = outcome("int UDAF quantiles(int) int EXTR q quantile e(int)")
    assert isinstance(refused, QueryError)
    assert refused.hint == "did you mean 'quantiles'?"


def test_a_text_has_a_limit() -> None:
    with pytest.raises(QueryError, match="at most 64 KiB"):
        parse_declarations(" " * 70_000)


WORDS = [
    "int",
    "UDAF",
    "EXTR",
    "f",
    "g",
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    "float",
    "char",
    "36",
    "decimal",
    "--",
    "\n",
    "?",
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(WORDS), max_size=24).map(" ".join) | st.text(max_size=40))
def test_any_text_is_read_or_refused_at_a_spot(text: str) -> None:
    result = outcome(text)
    if isinstance(result, QueryError):
        assert result.span is not None
        assert 0 <= result.span.start <= len(text)
    else:
        assert all(one.arguments for one in result)


def outcome(text: str) -> tuple[AggregateDeclaration, ...] | QueryError:
    try:
        return parse_declarations(text)
    except QueryError as error:
        return error


# What a class declares


def test_a_declaration_is_a_value() -> None:
    assert declare(Sum) == declare(Sum())
    assert hash(declare(Sum)) == hash(declare(Sum))
    assert (declare(Sum).kind.fold, declare(Sum).kind.combine) == (500.0, 2_000.0)
    assert declare(type("Dear", (Sum,), {"fold_cost": 7.0, "combine_cost": 9.0})).kind.fold == 7.0
    assert declare(type("Batch", (Sum,), {"update_batch": lambda *_: None})).kind.fold == 20.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "no name"}, "its name has other characters"),
        ({"arguments": ()}, "it has no arguments"),
        ({"arguments": ("DUBLE",)}, "'DUBLE' is not a type"),
        ({"returns": "ARRAY<DOUBLE>"}, "is not a type"),
        ({"returns": "DECIMAL(50, 2)"}, "needs 1 to 38 digits"),
        ({"state": {}}, "its state needs fields"),
        ({"state": {"failure": "DOUBLE"}}, "its state needs fields"),
        ({"state": {"total": "ARRAY<THING>"}}, "'THING' is not a type"),
        ({"state": {"total": "DOUBLE", "count": "BIGINT"}}, "a state has the fields total, count, and no others"),
        ({"equality": "roughly"}, "'roughly' is no equality"),
        ({"equality": "bounded"}, "belong together"),
        ({"error": 0.1}, "belong together"),
        ({"full_every": 0}, "at least 1"),
        ({"initialize": lambda self: 0}, "int is not a state"),
        ({"initialize": lambda self: 1 / 0}, "division by zero"),
        ({"initialize": UserAggregate.initialize, "merge": UserAggregate.merge}, "it has no initialize and no merge"),
        ({"update": UserAggregate.update}, "it has no update"),
        ({"low": type("Other", (Sum,), {"arguments": ("STRING",)})}, "must take the same arguments"),
        ({"low": type("Deeper", (Sum,), {"low": Sum})}, "no low level of its own"),
    ],
)
def test_what_is_missing_is_told(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        declare(type("Sum", (Sum,), changes))
    assert refused.value.code == "udaf"
    assert message in refused.value.message


def test_what_can_not_be_made_is_told() -> None:
    class Power(Sum):
        def __init__(self, exponent: int) -> None:
            self.exponent = exponent

    assert declare(Power(2)).name == "Power"
    with pytest.raises(UsageError, match="can't be made without parameters"):
        declare(Power)
    with pytest.raises(UsageError, match="int is not an aggregate: it is not derived"):
        declare(int)  # type: ignore[arg-type]


def test_one_argument_may_be_a_text() -> None:
    assert declare(type("One", (Sum,), {"arguments": "DOUBLE"})).arguments == (DOUBLE,)


def test_extractors_are_declared_by_their_methods() -> None:
    class Several(Sum):
        @extractor("BIGINT", "DOUBLE", name="whole")
        def rounded(self, state: Any, step: float) -> Any:
            return round(state["total"] / step)

    aggregate = declare(Several)
    (one,) = aggregate.extractors
    assert (one.name, one.parameters, one.returns, one.method) == ("whole", (DOUBLE,), BIGINT, "rounded")
    assert aggregate.result("WHOLE") is one
    assert aggregate.result(None).method == "output"
    with pytest.raises(UsageError, match="no extractor 'wole'"):
        aggregate.result("wole")


# Both together


def test_a_declaration_finds_its_classes() -> None:
    (declaration,) = parse_declarations("""
        float UDAF [low_sum, high_sum] my_sum(float)
        int EXTR in_steps my_sum steps_of (float, int);
    """)
    classes = {"low_sum": Buffer, "high_sum": High}
    aggregate = user_aggregate(
        bind_classes(declaration, classes, {"steps_of": lambda total, step: round(total / step)})
    )
    assert (aggregate.name, aggregate.arguments, aggregate.returns) == ("my_sum", (DOUBLE,), DOUBLE)
    assert aggregate.low == declare(Buffer)
    one = aggregate.result("in_steps")
    assert getattr(aggregate.implementation, one.method)({"total": 12.0}, 5) == 2


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("float UDAF [low_sum, high_sun] my_sum(float)", "high_sun"),
        ("float UDAF [lo, high_sum] my_sum(float)", "lo"),
        ("float UDAF my_sum(float)", "my_sum"),
        ("float UDAF high_sum(float) int EXTR a high_sum b (float)", "b"),
    ],
)
def test_what_a_declaration_names_must_be_there(text: str, missing: str) -> None:
    (declaration,) = parse_declarations(text)
    with pytest.raises(HeadraceError, match=f"names '{missing}', which is not given"):
        bind_classes(declaration, {"low_sum": Buffer, "high_sum": High})
