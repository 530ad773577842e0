"""Headrace answers hundreds of continuous aggregate queries over one stream with one shared plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.model.errors import RowErrorWarning
from headrace.model.functions import user_function

if TYPE_CHECKING:
    from headrace.aggregates.laws import declare_aggregates, user_aggregate
    from headrace.aggregates.user import DeclaredAggregate, UserAggregate, extractor
    from headrace.model.schema import UserFunction
    from headrace.spark.engine import Engine

__version__ = "0.1.0.dev0"

__all__ = [
    "Engine",
    "RowErrorWarning",
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
    """Answer queries over the rows of a frame by one shared plan: here (Arrow, pandas or Polars), or on Spark.

    In the queries the frame is called `name`, and `tables` are static tables to join. `event_time` is the column that
    tells the time of a row; it may be left out if there is one TIMESTAMP column only. The result of each query is a
    frame of the kind that came in, with one row per window and group. What could not be computed, and rows without an
    event time, are told by a RowErrorWarning.
    """
    # Imported when called: importing headrace stays light.
    if type(frame).__module__.partition(".")[0] == "pyspark":
        from headrace.spark.dataframes import aggregate_spark as answer
    else:
        from headrace.engine.dataframes import aggregate_frame as answer

    return answer(frame, queries, name=name, event_time=event_time, tables=tables or {}, functions=functions)


ELSEWHERE = {
    "Engine": "headrace.spark.engine",
    "UserAggregate": "headrace.aggregates.user",
    "extractor": "headrace.aggregates.user",
    "user_aggregate": "headrace.aggregates.laws",
    "declare_aggregates": "headrace.aggregates.laws",
}


def __getattr__(name: str) -> Any:
    """These need PySpark or Arrow, so they are loaded when they are asked for."""
    if name not in ELSEWHERE:
        raise AttributeError(f"module 'headrace' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(ELSEWHERE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *ELSEWHERE})
