"""Expressions over the columns of one batch: the walk. What each function computes is in the `kernels_*` modules.

A failure travels beside the values, and counts only where it could matter (docs/decisions/0002).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, tzinfo

import pyarrow as pa

from headrace.expressions import kernels_addresses as addresses
from headrace.expressions import kernels_comparisons as comparisons
from headrace.expressions import kernels_logic as logic
from headrace.expressions import kernels_numbers as numbers
from headrace.expressions import kernels_texts as texts
from headrace.expressions import kernels_times as times
from headrace.expressions.columns import Evaluated, Values, constant, is_null, null, one_row, spread, united
from headrace.expressions.kernels_casts import cast
from headrace.expressions.user_calls import call_user_function
from headrace.model.expressions import Call, ColumnRef, Expression, Literal
from headrace.model.schema import UserFunction
from headrace.model.types import NULL

Kernel = Callable[[Call, list[Values]], Evaluated]
"""Takes the tree and its arguments, at least one of them a column; the failures it gives are its own."""

STRICT: Mapping[str, Kernel] = {
    **numbers.STRICT,
    **comparisons.STRICT,
    **logic.STRICT,
    **texts.STRICT,
    **times.STRICT,
    **addresses.STRICT,
}
"""Functions that give NULL for NULL: they never see an argument that is NULL for every row."""
LENIENT: Mapping[str, Kernel] = {**comparisons.LENIENT, **logic.LENIENT}
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

    def evaluate(self, tree: Expression) -> Evaluated:
        """The column of `tree`, of its type, with the rows on which it failed."""
        return spread(self.column(tree), self.length)

    def column(self, tree: Expression) -> Evaluated:
        found = self.computed.get(tree)
        if found is None:
            found = self.computed[tree] = self.compute(tree)
        return found

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
        found = self.call(tree, written_out + arguments[1:])
        return found if isinstance(found.values, pa.Scalar) else Evaluated(found.values[0], found.failed)

    def call(self, tree: Call, arguments: list[Evaluated]) -> Evaluated:
        if tree.function in FORGIVING:
            return FORGIVING[tree.function](tree, arguments)
        found = self.apply(tree, [argument.values for argument in arguments])
        return Evaluated(found.values, united([found.failed, *(argument.failed for argument in arguments)]))

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


def computed_arguments(tree: Call) -> list[Expression]:
    """The constants of IN are read from the tree, since there may be thousands."""
    first, rest = tree.arguments[:1], tree.arguments[1:]
    return [*first, *(argument for argument in rest if tree.function != "in" or not isinstance(argument, Literal))]
