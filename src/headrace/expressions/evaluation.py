"""Expressions over the columns of one batch: the walk.

What a function computes is in the module of its kind: `numbers`, `texts`, ...

A failure travels beside the values, and counts only where it could matter (docs/decisions/0002).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, tzinfo

import numpy as np
import pyarrow as pa

from headrace.expressions import addresses, comparisons, logic, numbers, texts
from headrace.expressions.casts import cast
from headrace.expressions.columns import (
    ColumnFunction,
    Evaluated,
    TooManyBytesError,
    Values,
    check_held,
    constant,
    is_null,
    null,
    one_row,
    spread,
    text_bytes_of,
    unite_masks,
)
from headrace.expressions.user_calls import call_user_function
from headrace.model.arrays import Mask
from headrace.model.errors import ExpressionFailure
from headrace.model.expressions import Call, ColumnRef, Expression, Literal, children
from headrace.model.schema import UserFunction
from headrace.model.types import NULL, STRING

STRICT: Mapping[str, ColumnFunction] = {
    **numbers.STRICT,
    **comparisons.STRICT,
    **logic.STRICT,
    **texts.STRICT,
    **addresses.STRICT,
}
"""Functions that give NULL for NULL: they never see an argument that is NULL for every row."""
LENIENT: Mapping[str, ColumnFunction] = {**comparisons.LENIENT, **logic.LENIENT}
"""Functions that give something for NULL; a failed argument fails them too."""
FORGIVING: Mapping[str, Callable[[Call, list[Evaluated]], Evaluated]] = logic.FORGIVING
"""Functions that forget a failure which could not matter."""


class Evaluation:
    """Evaluates expressions over one batch; each distinct subtree is computed once.

    `columns` are found by relation and name. `known` columns stand for whole subtrees: group-by expressions,
    aggregates and window bounds, once they have been computed. A user function may be called for rows whose value
    does not count in the end.
    """

    def __init__(
        self,
        columns: Mapping[tuple[str, str], pa.Array],
        length: int,
        functions: Iterable[UserFunction] = (),
        zone: tzinfo = UTC,
        known: Mapping[Expression, pa.Array] | None = None,
    ) -> None:
        self.columns = columns
        self.length = length
        self.functions = {function.name.lower(): function for function in functions}
        self.zone = zone
        self.computed = {tree: Evaluated(values) for tree, values in (known or {}).items()}
        self.kept = set(self.computed)
        self.held_bytes = 0
        self.text_bytes = 0

    def evaluate(self, tree: Expression) -> Evaluated:
        """The column of `tree`, of its type, with the rows on which it failed.

        Raises:
            ExpressionFailure: the column can't be computed at all.
        """
        try:
            column = spread(self.column_in_memory(tree), self.length)
            if tree not in self.kept:
                self.keep(tree, column.values)
        except (TooManyBytesError, MemoryError, pa.ArrowCapacityError) as problem:
            raise ExpressionFailure(tree, f"it takes too much memory: {problem}", is_too_large=True) from problem
        except (pa.ArrowException, ArithmeticError, RecursionError, ValueError) as problem:
            raise ExpressionFailure(tree, f"{type(problem).__name__}: {problem}") from problem
        return column

    def keep(self, tree: Expression, values: pa.Array) -> None:
        """Texts that were asked for stay as long as the evaluation does."""
        self.kept.add(tree)
        if isinstance(tree, Call):
            self.text_bytes += text_bytes_of(values)
            check_held(self.text_bytes)

    # Within a bounded memory

    def column_in_memory(self, tree: Expression) -> Evaluated:
        """The column of `tree`; if all that is computed on the way takes too much memory, from pieces of the rows."""
        try:
            return self.column(tree)
        except TooManyBytesError as problem:
            self.computed = {known: self.computed[known] for known in self.kept if known in self.computed}
            self.held_bytes = 0
            if self.length < 2:
                raise
            size = -(-self.length // problem.pieces)
        parts = []
        for begin in range(0, self.length, size):
            part = self.piece(tree, begin, min(size, self.length - begin))
            parts.append(spread(part.column_in_memory(tree), part.length))
        check_held(sum(text_bytes_of(part.values) for part in parts))
        failed = None
        if any(part.failed is not None for part in parts):
            failed = np.concatenate([failed_rows(part) for part in parts])
        self.computed[tree] = Evaluated(pa.concat_arrays([part.values for part in parts]), failed)
        return self.computed[tree]

    def piece(self, tree: Expression, begin: int, length: int) -> Evaluation:
        """Some of the rows, with what `tree` needs of them."""
        columns: dict[tuple[str, str], pa.Array] = {}
        known: dict[Expression, pa.Array] = {}
        pending = [tree]
        while pending:
            node = pending.pop()
            column = self.computed.get(node) if node in self.kept else None
            if column is not None and column.failed is None and isinstance(column.values, pa.Array):
                known[node] = column.values.slice(begin, length)
            elif isinstance(node, ColumnRef):
                columns[node.relation, node.name] = self.columns[node.relation, node.name].slice(begin, length)
            else:
                pending += children(node)
        return Evaluation(columns, length, self.functions.values(), self.zone, known)

    def column(self, tree: Expression) -> Evaluated:
        column = self.computed.get(tree)
        if column is None:
            column = self.computed[tree] = self.compute(tree)
            if isinstance(tree, Call) and isinstance(column.values, pa.Array):
                self.held_bytes += column.values.nbytes
                check_held(self.held_bytes)
        return column

    def compute(self, tree: Expression) -> Evaluated:
        if isinstance(tree, Literal):
            return Evaluated(constant(tree.value, tree.type))
        if isinstance(tree, ColumnRef):
            return Evaluated(self.columns[tree.relation, tree.name])
        if not isinstance(tree, Call) or tree.function in ("window_start", "window_end"):
            raise TypeError(f"{tree} is only known when a window closes")
        arguments = [self.column(argument) for argument in computed_arguments(tree)]
        if any(isinstance(argument.values, pa.Array) for argument in arguments):
            return self.call(tree, arguments)
        written_out = [Evaluated(one_row(argument.values), argument.failed) for argument in arguments[:1]]
        row = self.call(tree, written_out + arguments[1:])
        return row if isinstance(row.values, pa.Scalar) else Evaluated(row.values[0], row.failed)

    def call(self, tree: Call, arguments: list[Evaluated]) -> Evaluated:
        if tree.type == STRING and tree.function != "concat":
            check_held(sum(self.text_bytes_in(argument.values) for argument in arguments))
        if tree.function in FORGIVING:
            return FORGIVING[tree.function](tree, arguments)
        result = self.apply(tree, [argument.values for argument in arguments])
        return Evaluated(result.values, unite_masks([result.failed, *(argument.failed for argument in arguments)]))

    def text_bytes_in(self, values: Values) -> int:
        """What the texts take that a function may choose from, or pass on: a constant may be chosen for every row."""
        return text_bytes_of(values) * (self.length if isinstance(values, pa.Scalar) else 1)

    def apply(self, tree: Call, values: list[Values]) -> Evaluated:
        if tree.type == NULL:
            return Evaluated(null(NULL))
        if tree.function in LENIENT:
            return LENIENT[tree.function](tree, values)
        if any(is_null(one) for one in values):
            return Evaluated(null(tree.type))
        if tree.function == "cast":
            return cast(tree, values[0], self.zone)
        if tree.function in STRICT:
            return STRICT[tree.function](tree, values)
        return call_user_function(self.functions[tree.function.lower()], tree, values)


def failed_rows(part: Evaluated) -> Mask:
    """The rows on which a piece failed, one element for each."""
    return np.zeros(len(part.values), np.bool_) if part.failed is None else part.failed


def computed_arguments(tree: Call) -> list[Expression]:
    """The constants of IN are read from the tree, since there may be thousands."""
    first, rest = tree.arguments[:1], tree.arguments[1:]
    return [*first, *(argument for argument in rest if tree.function != "in" or not isinstance(argument, Literal))]
