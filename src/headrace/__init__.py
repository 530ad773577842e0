"""Headrace answers hundreds of continuous aggregate queries over one stream with one shared plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.model.errors import HeadraceError, RowErrorWarning
from headrace.model.functions import user_function

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.aggregates.laws import declare_aggregates, user_aggregate
    from headrace.aggregates.user import DeclaredAggregate, UserAggregate, extractor
    from headrace.engine.run import Run
    from headrace.model.schema import UserFunction
    from headrace.spark.engine import Engine

__version__ = "0.1.0.dev0"

__all__ = [
    "Engine",
    "HeadraceError",
    "RowErrorWarning",
    "Run",
    "UserAggregate",
    "__version__",
    "aggregate",
    "declare_aggregates",
    "extractor",
    "user_aggregate",
    "user_function",
]


def aggregate(
    frame: Any,
    queries: Mapping[str, str],
    *,
    name: str = "stream",
    event_time: str | None = None,
    tables: Mapping[str, Any] | None = None,
    functions: Iterable[UserFunction | DeclaredAggregate] = (),
) -> dict[str, Any]:
    """Answer queries over the rows of a dataframe with one shared plan.

    Arrow, pandas and Polars dataframes are answered in this process, a static DataFrame of Spark on Spark. All rows are
    there at once, so every window that holds a row is answered, and no row is late.

    Args:
        frame: The rows.
        queries: SQL by the name of the query. A query may read the results of those before it.
        name: What the queries call the dataframe.
        event_time: The column with the time of a row. Needed if there are several TIMESTAMP columns.
        tables: Static tables to join, by name.
        functions: What `user_function`, `user_aggregate` and `declare_aggregates` return.

    Returns:
        The results by the name of the query: a dataframe of the kind that came in, with one row per window and group.

    Raises:
        HeadraceError: A name or a query is refused, or the dataframe can't be read.

    Warns:
        RowErrorWarning: Rows were left out, or values could not be computed and are NULL.

    Example:
        >>> import pyarrow as pa
        >>> from datetime import UTC, datetime
        >>> at = [datetime(2026, 1, 1, 9, 0, second, tzinfo=UTC) for second in (1, 7, 12)]
        >>> clicks = pa.table({"at": at, "page": ["a", "b", "a"]})
        >>> sql = "SELECT page, count(*) AS n FROM clicks [RANGE '1 minute'] GROUP BY page ORDER BY page"
        >>> headrace.aggregate(clicks, {"pages": sql}, name="clicks")["pages"].select(["page", "n"]).to_pylist()
        [{'page': 'a', 'n': 2}, {'page': 'b', 'n': 1}]
    """
    # Imported when called: importing headrace stays light.
    if type(frame).__module__.partition(".")[0] == "pyspark":
        from headrace.spark.dataframes import aggregate_spark as answer
    else:
        from headrace.engine.dataframes import aggregate_frame as answer

    return answer(frame, queries, name=name, event_time=event_time, tables=tables or {}, functions=functions)


LAZY = {
    "Engine": "headrace.spark.engine",
    "Run": "headrace.engine.run",
    "UserAggregate": "headrace.aggregates.user",
    "extractor": "headrace.aggregates.user",
    "user_aggregate": "headrace.aggregates.laws",
    "declare_aggregates": "headrace.aggregates.laws",
}
"""What needs PySpark or Arrow, with the module that has it."""


def __getattr__(name: str) -> Any:
    """Load a part of the public API that needs PySpark or Arrow when it is used first."""
    if name not in LAZY:
        raise AttributeError(f"module 'headrace' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
