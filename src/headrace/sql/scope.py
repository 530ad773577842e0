"""What names mean in one query: columns of the relations in FROM, the window's bounds, and names given on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, tzinfo

from sqlglot import exp

from headrace.model.errors import QueryError, nearest
from headrace.model.expressions import WINDOW_END, WINDOW_START, ColumnRef, Expression
from headrace.model.schema import Catalog, Column, find_column
from headrace.sql.stock import Spots

WINDOW_NAMES: dict[str, Expression] = {"window_start": WINDOW_START, "window_end": WINDOW_END}
BOUNDS_HINT = "the window's bounds are known in SELECT, HAVING and ORDER BY, outside of aggregates"
NOT_REPLAYABLE = frozenset(
    "now current_timestamp current_date current_time localtimestamp unix_timestamp "
    "rand random randn uuid shuffle monotonically_increasing_id".split()
)


@dataclass(frozen=True, slots=True)
class Relation:
    """A stream or table under the name it has in one query."""

    alias: str
    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """An expression that was given a name: a group, or an item of the SELECT list."""

    name: str
    expression: Expression


class Scope:
    """Grows while the clauses are read.

    A bare `window_start` is the window's bound wherever that is known; in backticks it is a column. Names from the
    SELECT list come before columns in HAVING and ORDER BY (`named_first`), never inside an aggregate.
    """

    def __init__(self, spots: Spots, catalog: Catalog) -> None:
        self.spots = spots
        self.catalog = catalog
        self.zone: tzinfo = UTC
        self.relations: list[Relation] = []
        self.merged: set[tuple[str, str]] = set()
        self.named: dict[str, Named] = {}
        self.named_first = False
        self.bounds_known = False

    @contextmanager
    def of_one_row(self) -> Iterator[None]:
        """Inside an aggregate, where there are only the columns of a row."""
        outside = self.named_first, self.bounds_known
        self.named_first = self.bounds_known = False
        yield
        self.named_first, self.bounds_known = outside

    def add_names(self, *items: Named) -> None:
        self.named |= {item.name.lower(): item for item in items}

    def merge(self, relation: Relation, column: str) -> None:
        """After USING a bare name is the stream's column only."""
        self.merged.add((relation.alias, column.lower()))

    def column(self, node: exp.Expression) -> Expression:
        if node.args.get("db") is not None:
            raise self.spots.fail("unsupported", "a name has at most two parts", node, "write relation.column")
        if not isinstance(node.this, exp.Identifier):
            raise self.spots.fail("unsupported", "* can't be selected", node, "name the columns; count(*) counts rows")
        qualifier, name = self.parts(node)
        bound = WINDOW_NAMES.get(name.lower()) if qualifier is None and self.bounds_known else None
        if bound is not None and not self.spots.is_quoted(node.this):
            return bound
        named = self.named.get(f"{qualifier}.{name}".lower() if qualifier is not None else name.lower())
        if named is not None and qualifier is None and self.named_first:
            return named.expression
        column = self.find(node)
        if column is not None:
            return column
        if named is not None:
            return named.expression
        raise self.unknown(qualifier, name, node)

    def parts(self, node: exp.Expression) -> tuple[str | None, str]:
        """(relation or None, column) as they were written."""
        table = node.args.get("table")
        return self.spots.name(table) if table is not None else None, self.spots.name(node.this)

    def find(self, node: exp.Expression) -> ColumnRef | None:
        """The column that a name stands for, if there is one."""
        qualifier, name = self.parts(node)
        matches = [
            ColumnRef(relation.alias, column.name, column.type)
            for relation in self.candidates(qualifier, name)
            for column in [find_column(relation.columns, name)]
            if column is not None
        ]
        if len(matches) > 1:
            owners = " or ".join(f"{match.relation}.{match.name}" for match in matches)
            hint = "put the relation's name before it"
            raise self.spots.fail("ambiguous-name", f"'{name}' could be {owners}", node, hint)
        return matches[0] if matches else None

    def candidates(self, qualifier: str | None, name: str) -> list[Relation]:
        if qualifier is not None:
            return [relation for relation in self.relations if relation.alias.lower() == qualifier.lower()]
        return [relation for relation in self.relations if (relation.alias, name.lower()) not in self.merged]

    def unknown(self, qualifier: str | None, name: str, node: exp.Expression) -> QueryError:
        relations = self.candidates(qualifier, name)
        if not relations:
            hint = nearest(qualifier or "", [relation.alias for relation in self.relations])
            return self.spots.fail(
                "unknown-name", f"no stream or table '{qualifier}' in FROM", node.args["table"], hint
            )
        if name.lower() in NOT_REPLAYABLE:
            return self.not_replayable(name, node)
        known = [column.name for relation in relations for column in relation.columns]
        owners = qualifier or " or ".join(relation.alias for relation in relations)
        hint = BOUNDS_HINT if name.lower() in WINDOW_NAMES else nearest(name, [*known, *self.named])
        hint = hint or f"known columns: {', '.join(known[:20])}{', ...' if len(known) > 20 else ''}"
        return self.spots.fail("unknown-name", f"no column '{name}' in {owners}", node.this, hint)

    def not_replayable(self, name: str, node: exp.Expression) -> QueryError:
        hint = "compare event times with constants; the window already follows the stream's own clock"
        return self.spots.fail("not-replayable", f"{name} gives another answer when the stream is replayed", node, hint)
