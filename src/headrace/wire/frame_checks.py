"""Whether what a frame carries can be used: partials that are those of its plan, or rows of its stream.

The loops behind `combine` do not check the addresses that they read. What comes from outside is looked at here, column
by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.aggregates.partials import Partial
from headrace.inputs.conversion import convert_whole
from headrace.kernel.combine import NodePartials
from headrace.kernel.interchange import layout_of, node_id, unpack
from headrace.kernel.sketches.counters import unpack as unpack_summaries
from headrace.kernel.states.columns import Columns
from headrace.kernel.states.sketches import sketch_of
from headrace.model.arrow import arrow_type, one_array
from headrace.model.errors import DataError
from headrace.model.schema import Stream
from headrace.planner.lattice import Node
from headrace.planner.plan import Plan
from headrace.windows.slices import slice_ends, slice_starts
from headrace.wire.frames import MAX_TIME_US, Frame, FrameError

PLACES = ("node", "slice_start", "slice_end", "cell")
"""The columns that say where a partial belongs."""


def check_partials(frame: Frame, stream: str, plan: Plan) -> list[NodePartials]:
    """The partials of a frame, each of a node that the plan ships; FrameError if they are anything else."""
    nodes = {node_id(stream, plan.nodes[place].node): plan.nodes[place].node for place in plan.shipped}
    for table in frame.tables:
        check_layout(table, nodes)
    parts = unpack(stream, frame.tables, nodes.values())
    for part in parts:
        for problem in problems_of(part):
            raise FrameError(problem)
    return parts


def check_rows(frame: Frame, stream: Stream) -> list[pa.Table]:
    """The rows of a frame without a plan, with all columns of the stream."""
    declared = {column.name.lower(): arrow_type(column.type) for column in stream.columns}
    for table in frame.tables:
        for field in table.schema:
            if declared.get(field.name.lower()) != field.type:
                raise FrameError(f"its rows are not those of {stream.name}: {str(field)[:100]!r} is not declared")
    return [read_rows(table, stream) for table in frame.tables]


def read_rows(table: pa.Table, stream: Stream) -> pa.Table:
    try:
        return convert_whole("a table of the frame", table, stream.columns)
    except DataError as problem:
        raise FrameError(f"{problem.message}: {problem.detail}") from None


def check_layout(table: pa.Table, nodes: Mapping[str, Node]) -> None:
    """Every row is of a node that is known, and in the columns of that node."""
    schema = table.schema.remove_metadata()
    if schema.names[: len(PLACES)] != list(PLACES) or not pa.types.is_dictionary(schema.types[0]):
        raise FrameError("it has a table that is not of partials")
    if any(table[name].null_count for name in PLACES):
        raise FrameError("it has partials that belong nowhere")
    for name in one_array(table["node"]).dictionary.to_pylist():
        if name not in nodes:
            raise FrameError(f"its plan ships no node {str(name)[:100]!r}")
        if schema != layout_of(nodes[name]):
            raise FrameError(f"its columns are not those of the node {name}")


def problems_of(part: NodePartials) -> Iterator[str]:
    """What is wrong with the rows of one node."""
    if not has_own_slices(part):
        yield "it has slices that are not those of their node"
    if part.rows and not 0 <= part.cells.min() <= part.cells.max() < part.node.cells:
        yield "it has cells that are not those of their node"
    for partial, columns in part.states.items():
        check = CHECKS.get(partial.kind)
        if check is not None and not check(partial, columns):
            yield f"it has a state that is not one of a {partial.kind}"


def has_own_slices(part: NodePartials) -> bool:
    """Each one reaches from a boundary of the node to the next."""
    starts_us, first, of_row = np.unique(part.starts_us, return_index=True, return_inverse=True)
    if not len(starts_us):
        return True
    if starts_us[0] < -MAX_TIME_US or starts_us[-1] > MAX_TIME_US:
        return False
    ends_us = part.ends_us[first]
    return bool(
        np.array_equal(part.ends_us, ends_us[of_row])
        and np.array_equal(starts_us, slice_starts(part.node.boundaries, starts_us))
        and np.array_equal(ends_us, slice_ends(part.node.boundaries, starts_us))
    )


# States, by kinds of partials


def has_no_null(_partial: Partial, columns: Columns) -> bool:
    return not any(column.null_count for column in columns)


def is_count(partial: Partial, columns: Columns) -> bool:
    return has_no_null(partial, columns) and is_at_least(columns[0], 0)


def is_at_least(numbers: pa.Array, least: int) -> bool:
    lowest = pc.min(numbers).as_py()
    return lowest is None or lowest >= least


def is_multiset(_partial: Partial, columns: Columns) -> bool:
    """Two lists of the same lengths: values, and how often each was there."""
    values, times = columns
    return (
        not any(column.null_count for column in (values, times, values.flatten(), times.flatten()))
        and pc.list_value_length(values).equals(pc.list_value_length(times))
        and is_at_least(times.flatten(), 1)
    )


def is_sketch(partial: Partial, columns: Columns) -> bool:
    return has_no_null(partial, columns) and not sketch_of(partial).is_bad(columns[0])


def is_summary(partial: Partial, columns: Columns) -> bool:
    """Counters of items of the type that is counted."""
    try:
        unpack_summaries(columns[0], arrow_type(partial.arguments[0].type))
    except DataError:
        return False
    return has_no_null(partial, columns)


CHECKS: Mapping[str, Callable[[Partial, Any], bool]] = {
    "count": is_count,
    "moments": is_count,
    "multiset": is_multiset,
    "quantiles": is_sketch,
    "buckets": is_sketch,
    "distinct": is_sketch,
    "counters": is_summary,
}
"""Other kinds are whole if their columns are."""
