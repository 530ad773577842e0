"""The interchange table: what leaves level 1, what a slice store keeps and what an edge sends, all in one form.

There is one table per layout, that is per types of groups and states. Nodes of the same layout share a table and are
distinguished by their ids, which are digests of what a node means: the same in every plan, process and machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pyarrow as pa

from headrace.kernel.combine import NodePartials, ordered_groups, ordered_partials
from headrace.kernel.states.kinds import state_of
from headrace.model.arrow import arrow_type, one_array
from headrace.model.caches import cached
from headrace.model.errors import DataError
from headrace.model.stable_names import stable_text
from headrace.model.types import TIMESTAMP
from headrace.planner.lattice import Node

VERSION = 2
HEADER = b"headrace.interchange"
NO_COUNTS: dict[str, dict[str, int]] = {"counts": {}}
"""Earlier versions expect such an entry in the header, and take an empty one."""
DIGEST_BYTES = 12
PACKED = pa.ipc.IpcWriteOptions(compression="lz4")
"""Slices, cells and groups repeat: bytes are a fifth or less, for about the time that it takes to copy them."""


@cached
def node_id(stream: str, node: Node) -> str:
    """A digest of stream, joins, cuts, kept rows, group-bys, slices and partials.

    A plan may ship two nodes that differ in nothing but their slices, or in what they sum.
    """
    dimensions = [
        (stable_text(dimension.expression), dimension.kind.value, stable_text(dimension.marks))
        for dimension in node.dimensions
    ]
    keep = sorted(stable_text(predicate.tree) for predicate in node.keep)
    groups, partials = (list(map(stable_text, parts)) for parts in (ordered_groups(node), ordered_partials(node)))
    meaning = stable_text((VERSION, stream, dimensions, keep, groups, node.boundaries, partials))
    return blake2b(meaning.encode(), digest_size=DIGEST_BYTES).hexdigest()


def layout_of(node: Node) -> pa.Schema:
    """node, slice_start, slice_end, cell, then a column per group and the columns of each partial's state."""
    fields = [
        pa.field("node", pa.dictionary(pa.int32(), pa.string())),
        pa.field("slice_start", arrow_type(TIMESTAMP)),
        pa.field("slice_end", arrow_type(TIMESTAMP)),
        pa.field("cell", pa.int64()),
    ]
    fields += [pa.field(f"group_{place}", arrow_type(tree.type)) for place, tree in enumerate(ordered_groups(node))]
    for place, partial in enumerate(ordered_partials(node)):
        columns = state_of(partial).columns(*(argument.type for argument in partial.arguments))
        fields += [pa.field(f"{partial.kind}_{place}_{number}", arrow) for number, arrow in enumerate(columns)]
    return pa.schema(fields)


def pack(stream: str, parts: Iterable[NodePartials]) -> tuple[pa.Table, ...]:
    """One table per layout."""
    tables: dict[pa.Schema, list[pa.Table]] = {}
    for part in parts:
        schema = layout_of(part.node)
        tables.setdefault(schema, []).append(to_table(stream, part, schema))
    return tuple(pa.concat_tables(same).unify_dictionaries() for same in tables.values())


def to_table(stream: str, part: NodePartials, schema: pa.Schema) -> pa.Table:
    codes = pa.array(np.zeros(part.rows, dtype=np.int32))
    columns = [
        pa.DictionaryArray.from_arrays(codes, pa.array([node_id(stream, part.node)])),
        pa.array(part.starts_us).cast(arrow_type(TIMESTAMP)),
        pa.array(part.ends_us).cast(arrow_type(TIMESTAMP)),
        pa.array(part.cells),
        *(part.groups[tree] for tree in ordered_groups(part.node)),
        *(column for partial in ordered_partials(part.node) for column in part.states[partial]),
    ]
    return pa.table(columns, schema=schema)


def unpack(stream: str, tables: Iterable[pa.Table], nodes: Iterable[Node]) -> list[NodePartials]:
    """The rows of these nodes; those of nodes that are not asked for are left."""
    wanted = {(node_id(stream, node), layout_of(node)): node for node in nodes}
    parts = []
    for table in tables:
        schema = table.schema.remove_metadata()
        for name, rows in by_node(table):
            node = wanted.get((name, schema))
            if node is not None:
                parts.append(from_table(node, rows))
    return parts


def by_node(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each node, which mostly lie one after the other, with its id."""
    ids = one_array(table["node"])
    names, codes = ids.dictionary.to_pylist(), np.asarray(ids.indices)
    bounds = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(codes)]
    runs: dict[int, list[pa.Table]] = {}
    for begin, end in pairwise(bounds):
        if begin < end:
            runs.setdefault(int(codes[begin]), []).append(table.slice(begin, end - begin))
    for code, same in runs.items():
        yield names[code], pa.concat_tables(same)


def from_table(node: Node, table: pa.Table) -> NodePartials:
    columns = [one_array(column) for column in table.columns]
    starts, ends, cells = (np.asarray(column.cast(pa.int64())) for column in columns[1:4])
    groups, place = {}, 4
    for tree in ordered_groups(node):
        groups[tree], place = columns[place], place + 1
    states = {}
    for partial in ordered_partials(node):
        width = len(state_of(partial).columns(*(argument.type for argument in partial.arguments)))
        states[partial], place = tuple(columns[place : place + width]), place + width
    return NodePartials(node, starts, ends, cells, groups, states)


def to_bytes(tables: Sequence[pa.Table]) -> bytes:
    """Write Arrow streams one after the other; the first has no rows, and says the version and how many follow."""
    header = {"version": VERSION, "tables": len(tables), **NO_COUNTS}
    sink = pa.BufferOutputStream()
    empty = pa.schema([], metadata={HEADER: json.dumps(header).encode()})
    for table in (pa.table([], schema=empty), *tables):
        with pa.ipc.new_stream(sink, table.schema, options=PACKED) as writer:
            writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def from_bytes(raw: bytes) -> tuple[pa.Table, ...]:
    """Raise a DataError if the bytes are no interchange tables."""
    source = pa.BufferReader(raw)
    try:
        header = json.loads(pa.ipc.open_stream(source).read_all().schema.metadata[HEADER])
        version = header["version"]
        if version == VERSION:
            return tuple(pa.ipc.open_stream(source).read_all() for _ in range(header["tables"]))
    except (pa.ArrowException, MemoryError, LookupError, TypeError, OSError, ValueError) as problem:
        raise DataError("interchange", "these bytes are no interchange tables", detail=str(problem)) from None
    detail = f"they have version {version}, this program reads {VERSION}"
    raise DataError("interchange-version", "these interchange tables are of another version", detail=detail)
