"""Logic and choice: three-valued AND and OR, CASE, COALESCE, and what they forget of the failures beneath them."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.expressions.columns import (
    Evaluated,
    Values,
    holds,
    null,
    unite_masks,
)
from headrace.expressions.decimals import fit_type
from headrace.model.arrays import Mask
from headrace.model.expressions import Call


def condition(values: Values) -> Values:
    """A bare NULL is an unknown condition."""
    return values.cast(pa.bool_()) if pa.types.is_null(values.type) else values


def connective(call: Call, arguments: list[Evaluated]) -> Evaluated:
    """OR is decided by one TRUE, AND by one FALSE; only if all that decide have failed does the whole fail."""
    decisive = call.function == "or"
    join = pc.or_kleene if decisive else pc.and_kleene
    values = reduce(join, [condition(argument.values) for argument in arguments])
    failed = unite_masks(argument.failed for argument in arguments)
    if failed is None:
        return Evaluated(values)
    for argument in arguments:
        deciding = holds(condition(argument.values), decisive)
        failed = failed & ~(deciding if argument.failed is None else deciding & ~argument.failed)
    return Evaluated(values, failed if failed.any() else None)


def case(call: Call, arguments: list[Evaluated]) -> Evaluated:
    tests = [Evaluated(condition(test.values), test.failed) for test in arguments[:-1:2]]
    chosen = [*zip(arguments[1::2], call.arguments[1::2], strict=True), (arguments[-1], call.arguments[-1])]
    branches = []
    for branch, tree in chosen:
        fit = fit_type(branch.values, tree.type, call.type)
        branches.append(Evaluated(fit.values, unite_masks([branch.failed, fit.failed])))
    return first_match(tests, branches)


def coalesce(call: Call, arguments: list[Evaluated]) -> Evaluated:
    branches = [
        fit_type(argument.values, tree.type, call.type)
        for argument, tree in zip(arguments, call.arguments, strict=True)
    ]
    if unite_masks([argument.failed for argument in arguments] + [branch.failed for branch in branches]) is None:
        return Evaluated(pc.coalesce(*(branch.values for branch in branches)))
    tests = [Evaluated(pc.is_valid(argument.values), argument.failed) for argument in arguments]
    return first_match(tests, [*branches, Evaluated(null(call.type))])


def first_match(tests: list[Evaluated], branches: list[Evaluated]) -> Evaluated:
    """The branch of the first test that holds, else the last one; tests behind it and other branches don't matter."""
    values = branches[-1].values
    for test, branch in zip(reversed(tests), reversed(branches[:-1]), strict=True):
        values = pc.if_else(pc.fill_null(test.values, False), branch.values, values)
    if unite_masks(part.failed for part in [*tests, *branches]) is None:
        return Evaluated(values)
    failed: Mask = np.zeros(1, np.bool_)
    undecided: Mask = np.ones(1, np.bool_)
    for test, branch in zip(tests, branches[:-1], strict=True):
        taken = undecided & holds(test.values)
        failed = failed | limit_failures(test.failed, undecided) | limit_failures(branch.failed, taken)
        undecided = undecided & ~taken
    failed = failed | limit_failures(branches[-1].failed, undecided)
    return Evaluated(values, failed if failed.any() else None)


def limit_failures(failed: Mask | None, rows: Mask) -> Mask:
    return np.zeros(1, np.bool_) if failed is None else failed & rows


def truth(call: Call, values: list[Values]) -> Evaluated:
    """IS TRUE and IS FALSE are never NULL."""
    tested = condition(values[0])
    return Evaluated(pc.fill_null(tested if call.function == "is_true" else pc.invert(tested), False))


FORGIVING = {"and": connective, "or": connective, "case": case, "coalesce": coalesce}
LENIENT = {
    "is_null": lambda call, values: Evaluated(pc.is_null(values[0])),
    "is_not_null": lambda call, values: Evaluated(pc.is_valid(values[0])),
    "is_true": truth,
    "is_false": truth,
}
STRICT = {"not": lambda call, values: Evaluated(pc.invert(values[0]))}
