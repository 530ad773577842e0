"""SQL by grammar and by mutation. Each statement is a query or a query error, within 2 s of CPU; a query reads back
from its canonical text and is planned with others.
"""

from __future__ import annotations

import itertools
import random
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

import pytest

from headrace.engine.answers import plan_for
from headrace.model.errors import HeadraceError
from headrace.model.query import Query
from headrace.model.schema import Stream, Table
from headrace.planner.codec import decode, encode
from headrace.planner.demand import demand
from headrace.sql import ScriptReader, digest, format_query, parse_query
from tests.faults.sql_data import data_of, random_rows
from tests.faults.sql_grammar import CATALOG, grammatical
from tests.sql.mutations import PIECE, mutate

MAX_CPU_S = 2.0
"""Of one statement."""
PLANNED_TOGETHER = 4
MIN_SHARE = 1 / 3
"""Of the statements, to be accepted and planned."""
SHORT, LONG = range(3), range(100, 140)
STATEMENTS = 100
"""By seed."""


class Hang(BaseException):
    """Not caught by any handler of Exception."""


@contextmanager
def cpu_limit(text: str, seconds: float = MAX_CPU_S) -> Iterator[None]:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise Hang(f"more than {seconds} s of CPU for {text!r}")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    except Exception as problem:
        problem.add_note(f"the statement: {text!r}")
        raise
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """What is compiled at its first use is no statement's fault."""
    queries = {"q": parse_query("SELECT s, sum(x), median(i) FROM r [RANGE 5 SLIDE 2] WHERE i > 1 GROUP BY s", CATALOG)}
    plan_for(data_of(random_rows(random.Random(0))), queries)


def make_statement(rng: random.Random) -> str:
    """By grammar, and of three one is changed."""
    text = grammatical(rng)
    return mutate(rng, PIECE.findall(text)) if rng.randrange(3) == 0 else text


def read(text: str) -> tuple[list[Query], set[str]]:
    """The queries over `r` in the text, each of which reads back; and how its statements fared."""
    queries, fates = [], set()
    with cpu_limit(text):
        for outcome in ScriptReader(text, CATALOG).statements():
            if isinstance(outcome, HeadraceError):
                assert outcome.code
                assert outcome.message
                assert str(outcome)
                fates.add("refused")
            elif isinstance(outcome, Stream | Table):
                fates.add("declared")
            else:
                check_text(outcome.query)
                queries.append(outcome.query)
                fates.add("accepted")
    return queries, fates


def check_text(query: Query) -> None:
    again = parse_query(format_query(query), CATALOG)
    assert again == query
    assert digest(again) == digest(query)
    assert decode(encode(query)) == query


def plan_together(queries: Mapping[str, Query], rng: random.Random) -> bool:
    """Whether they can be planned: if not, for a reason that is given."""
    with cpu_limit("; ".join(map(format_query, queries.values())), MAX_CPU_S * len(queries)):
        try:
            plan = plan_for(data_of(random_rows(rng)), queries)
        except HeadraceError:
            return False
        assert {ask.query for answer in plan.answers for ask in answer.leaf.asks} == queries.keys()
        assert decode(encode(plan)) == plan
    return True


def fuzz(seed: int) -> Counter[str]:
    """How many statements had each fate."""
    rng, fates = random.Random(seed), Counter[str]()
    waiting: dict[str, Query] = {}
    for number in range(STATEMENTS):
        queries, found = read(make_statement(rng))
        fates.update(found)
        if queries:
            demand(queries[0])
            waiting[f"q{number}"] = queries[0]
        if len(waiting) == PLANNED_TOGETHER:
            fates["planned"] += len(waiting) if plan_together(waiting, rng) else 0
            waiting = {}
    return fates


def check_fuzz(seed: int) -> None:
    fates = fuzz(seed)
    assert fates["planned"] >= MIN_SHARE * STATEMENTS, "too few statements are accepted and planned to test anything"
    assert fates["refused"] >= STATEMENTS // 20


@pytest.mark.parametrize("seed", SHORT)
def test_statements(seed: int) -> None:
    check_fuzz(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG)
def test_many_statements(seed: int) -> None:
    check_fuzz(seed)


def test_a_hang_is_found() -> None:
    with pytest.raises(Hang, match="for 'SELECT'"), cpu_limit("SELECT", 0.05):
        all(number >= 0 for number in itertools.count())
