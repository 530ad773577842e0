"""FROM: the stream, its static tables and the keys that join them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.expressions.normal import normalize, rename_relations, sort_key
from headrace.model.errors import nearest
from headrace.model.expressions import Call, ColumnRef, Expression, columns_in
from headrace.model.query import Join, JoinKey
from headrace.model.schema import Catalog, Stream, find_column
from headrace.model.types import DOUBLE, TIMESTAMP
from headrace.sql.expressions import ExpressionBuilder
from headrace.sql.scope import Relation
from headrace.sql.stock import allow


@dataclass(slots=True)
class JoinedTable:
    """A static table in FROM, with what is known of its keys so far."""

    relation: Relation
    node: exp.Expression
    outer: bool
    keys: list[JoinKey]
    groups: tuple[str, ...] = ()
    """Columns that must be among the keys: results have a row for each group."""


@dataclass(slots=True)
class FromClause:
    stream: Stream
    stream_relation: Relation
    stream_node: exp.Expression
    tables: list[JoinedTable]
    conditions: list[Expression]
    """What inner joins say ON beyond their keys; it belongs to WHERE."""


def read_from(builder: ExpressionBuilder, select: exp.Expression, catalog: Catalog) -> FromClause:
    """Fill the builder's scope with the relations, then read the ON conditions of explicit joins."""
    source = select.args.get("from_")
    if source is None:
        raise builder.fail("syntax", "the query reads nothing", select, "add FROM and a stream's name")
    joins = select.args.get("joins") or []
    nodes = [source.this, *(join.this for join in joins)]
    streams = [node for node in nodes if catalog.stream(table_name(builder, node)) is not None]
    for node in nodes:
        builder.scope.relations.append(relation_of(builder, node, catalog))
    if len(streams) != 1 and not is_of_results(builder, streams, catalog):
        hint = "join it to static tables only" if streams else "a static table alone has no windows"
        raise builder.fail("stream", f"a query reads exactly one stream, not {len(streams)}", nodes[-1], hint)
    check_aliases(builder, nodes)
    stream = catalog.stream(table_name(builder, streams[0]))
    assert stream is not None
    builder.scope.zone = stream.zone
    position = nodes.index(streams[0])
    clause = FromClause(stream, builder.scope.relations[position], streams[0], [], [])
    if position > 0 and join_kind(builder, joins[position - 1]) != "comma":
        raise builder.fail("join", "the stream must come first", streams[0], "write FROM stream JOIN table ON ...")
    for place, relation in enumerate(builder.scope.relations):
        if place != position:
            join = joins[place - 1] if place > 0 else None
            outer = join is not None and join_kind(builder, join) == "left"
            clause.tables.append(JoinedTable(relation, nodes[place], outer, []))
            if join is not None:
                read_condition(builder, clause, clause.tables[-1], join)
            if nodes[place] in streams:
                join_results(builder, clause, clause.tables[-1], catalog)
    return clause


def is_of_results(builder: ExpressionBuilder, streams: list[exp.Expression], catalog: Catalog) -> bool:
    """Results of several queries may be joined to those of the first."""
    declared = [catalog.stream(table_name(builder, node)) for node in streams]
    return bool(declared) and all(stream is not None and stream.derived is not None for stream in declared)


def join_results(builder: ExpressionBuilder, clause: FromClause, table: JoinedTable, catalog: Catalog) -> None:
    """Results meet by their windows, which must be the same, and by all groups of the joined ones."""
    first, second = clause.stream.derived, getattr(catalog.stream(table.relation.name), "derived", None)
    assert first is not None
    assert second is not None
    if first.window != second.window:
        problem = f"{clause.stream.name} and {table.relation.name} have different windows"
        raise builder.fail("join", problem, table.node, "results are joined window by window")
    for ours, theirs in ((first.start, second.start), (first.end, second.end)):
        table.keys.append(JoinKey(ColumnRef(clause.stream_relation.alias, ours, TIMESTAMP), theirs))
        builder.scope.merge(table.relation, theirs)
    table.groups = second.groups


def table_name(builder: ExpressionBuilder, node: exp.Expression) -> str:
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise builder.fail("unsupported", "FROM takes names of streams and tables only", node)
    allow(builder.spots, node, "this", "alias")
    return builder.spots.name(node.this)


def no_relation(name: str) -> str:
    """Return the message for a name in FROM that nobody declared."""
    return f"no stream or table '{name}'"


def relation_of(builder: ExpressionBuilder, node: exp.Expression, catalog: Catalog) -> Relation:
    name = table_name(builder, node)
    declared = catalog.stream(name) or catalog.table(name)
    if declared is None:
        hint = nearest(name, catalog.relation_names()) or "declare it before, with CREATE STREAM, TABLE or QUERY"
        raise builder.fail("unknown-name", no_relation(name), node.this, hint)
    alias = node.args.get("alias")
    if alias is None:
        return Relation(declared.name, declared.name, declared.columns)
    allow(builder.spots, alias, "this")
    return Relation(builder.spots.name(alias.this), declared.name, declared.columns)


def check_aliases(builder: ExpressionBuilder, nodes: list[exp.Expression]) -> None:
    seen: set[str] = set()
    for node, relation in zip(nodes, builder.scope.relations, strict=True):
        if relation.alias.lower() in seen:
            raise builder.fail(
                "ambiguous-name", f"two relations are called '{relation.alias}'", node, "give one an alias"
            )
        seen.add(relation.alias.lower())


def condition_of(join: exp.Expression) -> exp.Expression | None:
    """What was written behind ON; where nothing was, the stock parser puts TRUE."""
    on = join.args.get("on")
    return None if isinstance(on, exp.Boolean) else on


def join_kind(builder: ExpressionBuilder, join: exp.Expression) -> str:
    allow(builder.spots, join, "this", "kind", "side", "on", "using")
    side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
    if side == "LEFT" and kind in ("", "OUTER"):
        return "left"
    if side == "" and kind in ("", "INNER") and (condition_of(join) is not None or join.args.get("using")):
        return "inner"
    if side == "" and kind in ("", "CROSS"):
        return "comma"
    raise builder.fail("join", "only INNER and LEFT joins to a static table are supported", join.this)


def read_condition(builder: ExpressionBuilder, clause: FromClause, table: JoinedTable, join: exp.Expression) -> None:
    for identifier in join.args.get("using") or []:
        read_shared_column(builder, clause, table, identifier)
    on = condition_of(join)
    if on is None:
        return
    for conjunct in conjuncts(normalize(builder.row_condition(on, "ON"))):
        if not take_key(clause, [table], conjunct):
            if table.outer:
                hint = "ON takes stream = table.column, joined by AND; other conditions go into WHERE"
                raise builder.fail("join", "a LEFT JOIN may only compare keys", on, hint)
            clause.conditions.append(conjunct)


def read_shared_column(
    builder: ExpressionBuilder, clause: FromClause, table: JoinedTable, identifier: exp.Expression
) -> None:
    """USING (name): the stream's column equals the table's, and the bare name is the stream's."""
    name = builder.spots.name(identifier)
    sides = []
    for relation in (clause.stream_relation, table.relation):
        column = find_column(relation.columns, name)
        if column is None:
            hint = nearest(name, [column.name for column in relation.columns])
            raise builder.fail("unknown-name", f"no column '{name}' in {relation.alias}", identifier, hint)
        sides.append(ColumnRef(relation.alias, column.name, column.type))
    builder.call("=", tuple(sides), identifier)
    if not exact(*sides):
        message = f"'{name}' is {sides[0].type} in the stream and {sides[1].type} in the table"
        raise builder.fail("join", message, identifier, "join by columns of one type")
    table.keys.append(JoinKey(sides[0], sides[1].name))
    builder.scope.merge(table.relation, name)


def exact(key: Expression, column: Expression) -> bool:
    """Rows are looked up by equal keys, but a DOUBLE equals any whole number that is the same DOUBLE."""
    return key.type == column.type or DOUBLE not in (key.type, column.type)


def conjuncts(tree: Expression) -> tuple[Expression, ...]:
    """What must hold at once, of a tree in normal form."""
    return tree.arguments if isinstance(tree, Call) and tree.function == "and" else (tree,)


def take_key(clause: FromClause, tables: list[JoinedTable], conjunct: Expression) -> bool:
    """Note `conjunct` as a key if it says: an expression of the stream equals a column of one of the tables."""
    if not isinstance(conjunct, Call) or conjunct.function != "=":
        return False
    for key, column in (conjunct.arguments, conjunct.arguments[::-1]):
        owners = {part.relation for part in columns_in(key)}
        if not isinstance(column, ColumnRef) or owners != {clause.stream_relation.alias} or not exact(key, column):
            continue
        for table in tables:
            if table.relation.alias == column.relation:
                table.keys.append(JoinKey(key, column.name))
                return True
    return False


def finish_joins(builder: ExpressionBuilder, clause: FromClause) -> tuple[tuple[Join, ...], dict[str, str]]:
    """The joins in normal form, and the name that each alias of this query stands for."""
    for table in clause.tables:
        if not table.keys:
            hint = f"compare a column of the stream with one of {table.relation.name}'s, by ON or in WHERE"
            raise builder.fail("join", f"no key joins {table.relation.name} to the stream", table.node, hint)
        missing = [name for name in table.groups if name not in {key.column for key in table.keys}]
        if missing:
            problem = f"{table.relation.name} has a row for each {', '.join(table.groups)}"
            raise builder.fail("join", f"{problem}: join by {', '.join(missing)} too", table.node)
    names = {clause.stream_relation.alias: clause.stream.name}
    drafts = [join_draft(table, names) for table in clause.tables]
    order = sorted(range(len(drafts)), key=lambda place: join_order(drafts[place]))
    used = {clause.stream.name.lower()}
    joins = []
    for place in order:
        name = first_free(drafts[place].table, used)
        used.add(name.lower())
        names[clause.tables[place].relation.alias] = name
        joins.append(replace(drafts[place], relation=name))
    return tuple(joins), names


def join_draft(table: JoinedTable, names: dict[str, str]) -> Join:
    keys = {JoinKey(normalize(rename_relations(key.expression, names)), key.column) for key in table.keys}
    return Join(table.relation.name, "", tuple(sorted(keys, key=key_order)), table.outer)


def key_order(key: JoinKey) -> tuple[str, str]:
    return key.column, sort_key(key.expression)


def join_order(join: Join) -> tuple[str, bool, list[tuple[str, str]]]:
    return join.table, join.outer, [key_order(key) for key in join.keys]


def first_free(name: str, used: Iterable[str]) -> str:
    """A table that is joined twice is called Close, Close_2, ... in normal form, in the order of its keys."""
    candidate, number = name, 1
    while candidate.lower() in used:
        number += 1
        candidate = f"{name}_{number}"
    return candidate
