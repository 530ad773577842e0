"""Ten thousand broken statements and a thousand of noise: each is refused with a query error or reads back."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from headrace.model.errors import QueryError
from headrace.model.schema import Stream, Table
from headrace.sql import NamedQuery, ScriptReader, digest, format_query, format_stream, format_table, parse_script
from tests.sql.catalog import CATALOG, parse
from tests.sql.mutations import STATEMENTS, mutated, noise

BATCHES, MUTANTS, NOISES = 20, 500, 50


def check(text: str) -> set[str]:
    """How the statements of the text fared; whatever else is raised fails the test."""
    fates = set()
    for outcome in ScriptReader(text, CATALOG).statements():
        if isinstance(outcome, QueryError):
            check_error(outcome, text)
            fates.add("refused")
        else:
            check_value(outcome)
            fates.add("accepted")
    return fates


def check_error(error: QueryError, text: str) -> None:
    assert error.code
    assert error.message
    assert error.source is text
    assert error.span is None or 0 <= error.span.start < error.span.end <= len(text) + 1
    assert all(line.isprintable() for line in str(error).splitlines())


def check_value(value: NamedQuery | Stream | Table) -> None:
    if isinstance(value, NamedQuery):
        again = parse(format_query(value.query))
        assert again == value.query
        assert digest(again) == digest(value.query)
    elif isinstance(value, Stream):
        assert parse_script(format_stream(value)).catalog.streams == (value,)
    else:
        assert parse_script(format_table(value)).catalog.tables == (value,)


def fuzz(make: Callable[[random.Random], str], count: int, seed: int) -> list[set[str]]:
    rng = random.Random(seed)
    fates = []
    for _ in range(count):
        text = make(rng)
        try:
            fates.append(check(text))
        except Exception as problem:
            problem.add_note(f"the statement: {text!r}")
            raise
    return fates


@pytest.mark.parametrize("seed", range(BATCHES))
def test_broken_statements(seed: int, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    fates = fuzz(mutated, MUTANTS, seed)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records
    assert sum("accepted" in fate for fate in fates) > MUTANTS // 20, "the mutants are too broken to test anything"
    assert sum("refused" in fate for fate in fates) > MUTANTS // 20


@pytest.mark.parametrize("seed", range(BATCHES))
def test_noise(seed: int, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    fuzz(noise, NOISES, seed)
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_the_statements_are_whole_before_they_are_broken() -> None:
    assert all(check(statement) == {"accepted"} for statement in STATEMENTS)
