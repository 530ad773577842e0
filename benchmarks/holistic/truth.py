"""Whether answers are within the error that their functions declare, by the exact values of each window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.holistic.quantiles import rank_errors
from headrace.aggregates.partials import partials_of
from headrace.model.expressions import Aggregate, Expression
from headrace.model.query import Query
from headrace.spark.single_query import fail_unsupported

Answers = Mapping[int, Any]
"""By the end of the window in microseconds: a number, or a list of items with a lower and an upper bound each."""
OUTLIERS = 0.01
"""A distinct count is within its error in 99.7 of 100 cases; this share of windows may be beyond."""


@dataclass(frozen=True, slots=True)
class Question:
    """One aggregate of one argument that a query asks for, and its constant."""

    name: str
    aggregate: Aggregate

    @property
    def function(self) -> str:
        return self.aggregate.function

    @property
    def argument(self) -> Expression:
        return self.aggregate.arguments[0]

    @property
    def parameter(self) -> float:
        return float(str(self.aggregate.parameters[0].value)) if self.aggregate.parameters else 0.0

    @property
    def error(self) -> float:
        (partial,) = partials_of(self.aggregate)
        if partial.kind == "counters":
            return 1 / ((partial.size or partial.traits.default_size) + 1)
        return partial.traits.error


def question_of(query: Query) -> Question:
    found = [each for each in query.outputs if isinstance(each.expression, Aggregate)]
    if len(found) == 1 and isinstance(found[0].expression, Aggregate) and not query.group_by:
        aggregate = found[0].expression
        if aggregate.function in RIGHT and len(aggregate.arguments) == 1:
            return Question(found[0].name, aggregate)
    raise fail_unsupported("anything but one sketch of one column")


# The truth


@dataclass(frozen=True)
class Exact:
    """The values of one window, sorted."""

    values: NDArray[Any]

    @cached_property
    def counts(self) -> Mapping[object, int]:
        items, counts = np.unique(self.values, return_counts=True)
        return dict(zip(items.tolist(), counts.tolist(), strict=True))


def exact_windows(ends_us: NDArray[np.int64], items: pa.ChunkedArray) -> Mapping[int, Exact]:
    """Collect the values of windows from a row for each value and window that holds it."""
    codes, values = encode_items(items)
    order = np.lexsort((codes, ends_us))
    ends_us, codes = ends_us[order], codes[order]
    starts = np.flatnonzero(np.diff(ends_us, prepend=ends_us[:1] - 1))
    parts = np.split(codes, starts[1:])
    return {int(ends_us[start]): Exact(values[part]) for start, part in zip(starts, parts, strict=True)}


def encode_items(items: pa.ChunkedArray) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return numbers that sort as the items do; texts repeat often, so they are compared once."""
    encoded = items.combine_chunks().dictionary_encode()
    values, places = np.unique(np.asarray(encoded.dictionary.to_pylist()), return_inverse=True)
    return places[np.asarray(encoded.indices)], values


# What is right


def is_right_percentile(question: Question, exact: Exact, answer: float) -> bool:
    """Accept the error of its rank, or a rank beside it: engines round to ranks in different ways."""
    (error,) = rank_errors(exact.values, np.array([question.parameter]), np.array([answer]))
    return bool(error <= question.error + 1 / len(exact.values))


def is_right_count(question: Question, exact: Exact, answer: float) -> bool:
    true = len(exact.counts)
    return abs(answer - true) <= question.error * true


def are_bounded(question: Question, exact: Exact, answer: Sequence[Mapping[str, Any]]) -> bool:
    most = question.error * len(exact.values)
    return all(
        each["lower"] <= exact.counts.get(each["item"], 0) <= each["upper"] and each["upper"] - each["lower"] <= most
        for each in answer
    )


def are_right_hitters(question: Question, exact: Exact, answer: Sequence[Mapping[str, Any]]) -> bool:
    least = question.parameter * len(exact.values)
    wanted = {item for item, count in exact.counts.items() if count >= least}
    return wanted <= {each["item"] for each in answer} and are_bounded(question, exact, answer)


def are_right_top(question: Question, exact: Exact, answer: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether no item is left out that has more than the error beyond the last one listed."""
    if len(answer) != min(question.parameter, len(exact.counts)):
        return False
    least = min(each["lower"] for each in answer) + question.error * len(exact.values)
    wanted = {item for item, count in exact.counts.items() if count > least}
    return wanted <= {each["item"] for each in answer} and are_bounded(question, exact, answer)


RIGHT: Mapping[str, Callable[[Question, Exact, Any], bool]] = {
    "percentile_approx": is_right_percentile,
    "approx_count_distinct": is_right_count,
    "heavy_hitters": are_right_hitters,
    "top_k": are_right_top,
}


def check_answers(who: str, question: Question, answers: Answers, truth: Mapping[int, Exact]) -> int:
    """Count the windows compared; a wrong one is an error, and so is one that only one side has."""
    if answers.keys() != truth.keys():
        raise RuntimeError(f"{who}: {len(answers):,} windows instead of {len(truth):,}, or others")
    wrong = [end for end, exact in truth.items() if not RIGHT[question.function](question, exact, answers[end])]
    allowed = max(1, int(OUTLIERS * len(truth))) if question.function == "approx_count_distinct" else 0
    if len(wrong) > allowed:
        raise RuntimeError(
            f"{who}: {question.name} is beyond {question.error:.1%} in {len(wrong):,} of {len(truth):,} windows, "
            f"such as {answers[wrong[0]]} in the one that ends at {wrong[0]}"
        )
    return len(truth)
