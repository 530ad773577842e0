"""Test queries, functions and aggregates without Spark: batches one by one, restarts, deaths, a clock, the laws.

Example:
    >>> from headrace.testing import ABORT, STOP, assert_same_rows, play
    >>> declaration = "CREATE STREAM clicks (at TIMESTAMP, page STRING) EVENT TIME at"
    >>> batches = [[{"at": 1_000_000, "page": "a"}], [{"at": 2_000_000, "page": "a"}], [{"at": 9_000_000, "page": "b"}]]
    >>> queries = {"pages": "SELECT page, count(*) AS n FROM clicks [RANGE '5 s'] GROUP BY page"}
    >>> first, second, third = batches
    >>> results = play(declaration, [first, STOP, second, ABORT, third], queries)
    >>> assert_same_rows(results["pages"].select(["page", "n"]), [{"page": "a", "n": 2}, {"page": "b", "n": 1}])
"""

from headrace.engine.engine import LocalEngine, Options
from headrace.engine.step.runner import InProcess
from headrace.testing.laws import check_laws
from headrace.testing.scripts import ABORT, STOP, FakeClock, ScriptMark, play, write_batch
from headrace.testing.tables import assert_same_rows, sort_rows

__all__ = [
    "ABORT",
    "STOP",
    "FakeClock",
    "InProcess",
    "LocalEngine",
    "Options",
    "ScriptMark",
    "assert_same_rows",
    "check_laws",
    "play",
    "sort_rows",
    "write_batch",
]
