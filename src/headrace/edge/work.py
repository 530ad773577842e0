"""What an edge does with rows, by its orders: level 1 in fixed memory, or nothing but passing them on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple, Protocol

import pyarrow as pa
from msgspec.structs import replace

from headrace.edge.tables.level1 import LevelOne, Unfolded
from headrace.expressions.evaluation import FORGIVING, LENIENT, STRICT
from headrace.expressions.functions import FUNCTIONS
from headrace.model.arrow import ADDRESS_BYTES, arrow_type
from headrace.model.errors import DataError, UsageError
from headrace.model.expressions import Call, Expression, columns_in, walk
from headrace.model.query import needed_columns
from headrace.model.schema import Catalog, Stream
from headrace.model.types import Value
from headrace.planner.plan import Plan
from headrace.wire.frames import (
    MAX_BYTES,
    MAX_EXPANSION,
    MAX_HEADER_BYTES,
    Frame,
    Header,
    Position,
    RowCounts,
    max_plain_bytes,
    plain_bytes,
    to_bytes,
)
from headrace.wire.orders import SAME_VERSION, Orders, refusing

BUILT_IN = frozenset((*FUNCTIONS, *FORGIVING, *LENIENT, *STRICT, "cast", "window_start", "window_end"))
MAX_SENT_BYTES = MAX_BYTES - MAX_HEADER_BYTES
"""Of a frame: a relay may have to put a longer header before the same rows."""

TRIAL_VALUES: Mapping[str, Value] = {
    "BOOLEAN": True,
    "BIGINT": 1,
    "DOUBLE": 0.5,
    "DECIMAL": Decimal(0),
    "STRING": "x",
    "TIMESTAMP": 0,
    "ADDRESS": bytes(ADDRESS_BYTES),
}
"""By names of types; of others only NULL is tried."""


class EdgeWork(Protocol):
    """Takes rows and gives tables for a frame. `errors` are those of each query since the last cut."""

    @property
    def errors(self) -> Mapping[str, int]: ...

    @property
    def is_full(self) -> bool:
        """Whether it should be cut before it takes more."""

    def feed(self, rows: pa.Table) -> Sequence[Unfolded]:
        """Take rows, and return those that it can't take."""

    def cut(self) -> tuple[pa.Table, ...]: ...


class Forwarding:
    """Rows as they are."""

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.errors: Mapping[str, int] = {}
        self.rows: list[pa.Table] = []

    @property
    def is_full(self) -> bool:
        return bool(sum(rows.nbytes for rows in self.rows) >= self.memory_bytes)

    def feed(self, rows: pa.Table) -> Sequence[Unfolded]:
        self.rows.append(rows)
        return ()

    def cut(self) -> tuple[pa.Table, ...]:
        rows, self.rows = self.rows, []
        return (pa.concat_tables(rows),) if rows else ()


def work_for(orders: Orders, catalog: Catalog, tables: Mapping[str, pa.Table], memory_bytes: int) -> EdgeWork:
    """Return what does the work of the orders; raise a HeadraceError if they can't be followed."""
    if orders.plan is None:
        return Forwarding(memory_bytes)
    with refusing("these orders can't be followed"):
        check_functions(orders, catalog)
        stream = catalog.stream(orders.stream)
        if stream is not None:
            check_plan(orders.plan, stream)
            trial = LevelOne(orders, catalog, tables)
            trial.feed(trial_rows(stream, ordered_columns(orders, stream)))
            trial.cut()
        return LevelOne(orders, catalog, tables, memory_bytes=memory_bytes)


def trial_rows(stream: Stream, columns: Collection[str]) -> pa.Table:
    """A row with some value in each column, and one with nothing but a time. A plan that can't take them would break
    at the first rows of the source, and nobody could read those again.
    """
    values = {}
    for column in stream.columns:
        if column.name in columns:
            value = TRIAL_VALUES.get(column.type.name)
            second = value if column.name == stream.event_time else None
            values[column.name] = pa.array([value, second], arrow_type(column.type))
    return pa.table(values)


def check_functions(orders: Orders, catalog: Catalog) -> None:
    """Whether all functions that the queries call are known here: those of users are not sent."""
    trees = (node for query in orders.queries.values() for tree in query.expressions() for node in walk(tree))
    called = {node.function.lower() for node in trees if isinstance(node, Call)}
    missing = called - BUILT_IN - {function.name.lower() for function in catalog.functions}
    if missing:
        problem = f"the queries call {', '.join(sorted(missing))}, which this edge does not know"
        raise UsageError("functions", problem, hint="'functions' names the Python file that the job has too")


def check_plan(plan: Plan, stream: Stream) -> None:
    """Whether its nodes have slices, and the columns that they read are declared here as at the root."""
    declared = {column.name: column.type for column in stream.columns}
    nodes = [plan.nodes[place].node for place in plan.shipped]
    if not all(node.boundaries for node in nodes):
        raise DataError("orders", "the plan has a node without slices", hint=SAME_VERSION)
    trees: list[Expression | None] = []
    for node in nodes:
        trees += [*node.groups, *(part.expression for part in node.dimensions), *(part.tree for part in node.keep)]
        trees += [tree for partial in node.partials for tree in (*partial.arguments, partial.filter)]
    for column in (column for tree in trees if tree is not None for column in columns_in(tree)):
        if column.relation == stream.name and declared.get(column.name) != column.type:
            problem = f"the plan reads {stream.name}.{column.name} as {column.type}, which is not what is declared here"
            raise UsageError("schema", problem, hint="'schema' names the SQL file that the job has too")


def ordered_columns(orders: Orders, stream: Stream) -> frozenset[str]:
    """Return the columns that these orders need; all of them, if rows are passed on."""
    if orders.plan is None:
        return frozenset(column.name for column in stream.columns)
    return needed_columns(stream, orders.queries.values())


# Frames that are not too large


class Packed(NamedTuple):
    header: Header
    data: bytes


class Passed(NamedTuple):
    """Rows as they are beside partials: a table, or none, and how many they are."""

    tables: tuple[pa.Table, ...] = ()
    rows: RowCounts = RowCounts()


def pack_frame(frame: Frame, watermark_us: int | None) -> list[Packed]:
    """As one frame; rows as they are as several, if one would be too large. The watermark is that before the frame."""
    header = frame.header
    if (data := fitting_bytes(frame)) is not None:
        return [Packed(header, data)]
    if header.plan is not None:
        problem = f"the partials of {header.rows.read:,} rows take more than the {MAX_SENT_BYTES:,} bytes of a frame"
        raise DataError("frame-size", problem, hint="give level 1 less memory: then frames are cut sooner")
    (rows,) = frame.tables
    pieces = list(halve_rows(rows, lambda piece: fitting_bytes(Frame(header, (piece,))) is not None)) or [
        rows.slice(0, 0)
    ]
    headers = headers_of(header, [piece.num_rows for piece in pieces], rows.num_rows, watermark_us)
    return [
        Packed(part, to_bytes(Frame(part, (piece,) if piece.num_rows else ())))
        for part, piece in zip(headers, pieces, strict=True)
    ]


def split_span(header: Header, tables: tuple[pa.Table, ...], passed: Passed, watermark_us: int | None) -> list[Frame]:
    """Partials and rows of one span: a frame of the plan, then one of rows as they are."""
    if not passed.tables:
        return [Frame(header, tables)]
    counts = header.rows
    rest = replace(counts, read=counts.read - passed.rows.read, late=counts.late - passed.rows.late)
    between = place_inside(header.position, 0)
    first = replace(header, position=between, watermark_us=watermark_us, rows=rest, ended=False)
    second = replace(header, sequence=header.sequence + 1, plan=None, begins=between, rows=passed.rows, errors={})
    return [Frame(first, tables), Frame(second, passed.tables)]


def fitting_bytes(frame: Frame) -> bytes | None:
    """Return the bytes of a frame, None if they are more than the upper side takes, packed or unpacked."""
    if sum(table.nbytes for table in frame.tables) > MAX_EXPANSION * MAX_SENT_BYTES:
        return None
    data = to_bytes(frame)
    fits = len(data) <= MAX_SENT_BYTES and plain_bytes(data) <= max_plain_bytes(len(data), MAX_SENT_BYTES)
    return data if fits else None


def halve_rows(rows: pa.Table, fits: Callable[[pa.Table], bool]) -> Iterator[pa.Table]:
    """Pieces that fit, in their order. A single row that does not is left out."""
    if fits(rows):
        yield rows
    elif rows.num_rows > 1:
        middle = rows.num_rows // 2
        yield from halve_rows(rows.slice(0, middle), fits)
        yield from halve_rows(rows.slice(middle), fits)


def headers_of(header: Header, counts: Sequence[int], row_count: int, watermark_us: int | None) -> Iterator[Header]:
    """Yield the headers of frames with `counts` rows, of `row_count` rows. All but the last keep the watermark from
    before, since rows follow. Rows that were left out are bad.
    """
    before, begins = 0, header.begins
    for number, count in enumerate(counts[:-1]):
        position = place_inside(header.position, number + 1)
        yield replace(
            header,
            sequence=header.sequence + number,
            begins=begins,
            position=position,
            watermark_us=watermark_us,
            rows=RowCounts(read=count),
            errors={},
            ended=False,
        )
        before, begins = before + count, position
    rest = replace(header.rows, read=header.rows.read - before, bad=header.rows.bad + row_count - sum(counts))
    yield replace(header, sequence=header.sequence + len(counts) - 1, begins=begins, rows=rest)


def place_inside(position: Position, number: int) -> Position:
    """Between two frames of a span that ends at the position: no start of an edge ever begins there."""
    return None if position is None else {**position, "part": number}
