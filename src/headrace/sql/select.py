"""SELECT: from the tokens of one statement to a Query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import Token, exp

from headrace.expressions.normal import normalize, rename_relations, sort_key
from headrace.model.expressions import (
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Call,
    ColumnRef,
    Expression,
    Literal,
    aggregates_in,
    children,
    is_window_bound,
    walk,
)
from headrace.model.query import Order, Output, Query
from headrace.model.schema import Catalog, find_column
from headrace.model.types import BOOLEAN, NULL, TIMESTAMP
from headrace.sql.expressions import ExpressionBuilder
from headrace.sql.grammar import check_grammar
from headrace.sql.lift import Lifted, lift
from headrace.sql.relations import conjuncts, finish_joins, read_from, take_key
from headrace.sql.scope import WINDOW_NAMES, Named, Scope
from headrace.sql.stock import Spots, allow, stock_parse
from headrace.sql.tokens import check_limits
from headrace.sql.window_clauses import WindowReader

MAX_LIMIT = 1_000_000
CLAUSES = ("expressions", "from_", "joins", "where", "group", "having", "order", "limit")


def parse_select(tokens: list[Token], text: str, catalog: Catalog) -> Query:
    check_limits(tokens, text)
    lifted = lift(tokens)
    check_grammar(tokens)
    return SelectBuilder(stock_parse(lifted), lifted, catalog).build()


@dataclass(frozen=True, slots=True)
class Item:
    """An expression of a clause while the query is built, with the name it will have and the node it came from.

    A `position` above zero says that the name was made of it, because none was given.
    """

    name: str
    expression: Expression
    node: exp.Expression
    position: int = 0

    def next_name(self) -> Item:
        position = self.position + 1
        return replace(self, name=natural_name(self.expression, position), position=position)


class SelectBuilder:
    """Reads the clauses in the order in which names become known: FROM, WHERE, GROUP BY, SELECT, HAVING, ORDER BY."""

    def __init__(self, select: exp.Expression, lifted: Lifted, catalog: Catalog) -> None:
        self.select = select
        self.lifted = lifted
        self.spots = Spots(lifted.source)
        self.fail = self.spots.fail
        self.scope = Scope(self.spots, catalog)
        self.expressions = ExpressionBuilder(self.spots, lifted.casts, self.scope)
        allow(self.spots, select, *CLAUSES)
        self.source = read_from(self.expressions, select, catalog)
        self.windows = WindowReader(self.expressions, lifted, self.source)
        self.aliased = {
            self.spots.name(item.args["alias"]).lower(): item.this
            for item in reversed(select.expressions)
            if isinstance(item, exp.Alias)
        }

    def build(self) -> Query:
        where = self.read_where()
        self.scope.bounds_known = True
        groups = self.read_groups()
        outputs = self.read_outputs()
        window = self.windows.only()
        self.scope.add_names(*(Named(item.name, item.expression) for item in outputs))
        self.scope.named_first = True
        having = self.read_having()
        orders = self.read_orders()
        limit = self.read_limit()
        joins, names = finish_joins(self.expressions, self.source)
        groups = [replace(item, expression=normalize(rename_relations(item.expression, names))) for item in groups]
        grouped = frozenset(item.expression for item in groups)

        def finish_item(item: Item) -> Item:
            tree = normalize(rename_relations(item.expression, names), grouped)
            self.check_grouped(tree, grouped, item.node)
            return replace(item, expression=tree)

        query = Query(
            stream=self.source.stream.name,
            window=window,
            outputs=self.with_local_times(
                self.complete_outputs([finish_item(item) for item in outputs], groups), names
            ),
            joins=joins,
            where=normalize(rename_relations(where, names)) if where is not None else None,
            group_by=tuple(sorted(grouped, key=sort_key)),
            having=finish_item(having).expression if having is not None else None,
            order_by=tuple(replace(order, expression=finish_item(item).expression) for item, order in orders),
            limit=limit,
        )
        if not groups and not query.aggregates():
            hint = "add count(*), sum(x), ... or GROUP BY"
            raise self.fail("aggregate", "the query aggregates nothing", self.select.expressions[0], hint)
        return query

    # Clauses over rows

    def read_where(self) -> Expression | None:
        """WHERE without the conjuncts that are join keys, and with what inner joins say ON beyond theirs."""
        node = self.select.args.get("where")
        condition = normalize(self.expressions.row_condition(node.this, "WHERE")) if node is not None else None
        rest = list(self.source.conditions)
        inner = [table for table in self.source.tables if not table.outer]
        for conjunct in conjuncts(condition) if condition is not None else ():
            if not take_key(self.source, inner, conjunct):
                rest.append(conjunct)
        if len(rest) > 1:
            return Call("and", tuple(rest), BOOLEAN)
        return rest[0] if rest else None

    def read_groups(self) -> list[Item]:
        group = self.select.args.get("group")
        if group is None:
            return []
        allow(self.spots, group, "expressions")
        items = []
        for position, node in enumerate(group.expressions):
            alias_index = self.lifted.group_aliases.get(position)
            alias = self.lifted.source[alias_index].text if alias_index is not None else None
            if self.windows.take_group(node, alias):
                continue
            tree = self.group_expression(node)
            if alias is not None:
                self.scope.add_names(Named(alias, tree))
            if not is_window_bound(tree):
                self.check_group(tree, node)
                generated = 0 if alias is not None or isinstance(tree, ColumnRef) else position + 1
                items.append(Item(alias or natural_name(tree, position + 1), tree, node, generated))
        return items

    def check_group(self, tree: Expression, node: exp.Expression) -> None:
        if any(True for _ in aggregates_in(tree)):
            raise self.fail("aggregate", "GROUP BY can't hold an aggregate", node)
        if any(map(is_window_bound, walk(tree))):
            hint = "every result is per window already; SELECT may compute with its bounds"
            raise self.fail("aggregate", "GROUP BY can't hold the window's bounds", node, hint)
        self.check_comparable("GROUP BY", tree, node)

    def check_comparable(self, clause: str, tree: Expression, node: exp.Expression) -> None:
        if not tree.type.is_comparable:
            raise self.fail("type", f"{clause} needs values that can be compared, not {tree.type}", node)

    def group_expression(self, node: exp.Expression) -> Expression:
        """GROUP BY takes expressions, positions in the SELECT list, and names given there."""
        if self.spots.is_number(node):
            return self.expressions.build(strip_alias(self.item_at(node)))
        return self.expressions.build(self.aliased.get(self.unbound_name(node) or "", node))

    def unbound_name(self, node: exp.Expression) -> str | None:
        """The bare name, in lower case, if it stands for no column."""
        if is_bare_name(node) and self.scope.find(node) is None:
            return self.spots.name(node.this).lower()
        return None

    def item_at(self, node: exp.Expression) -> exp.Expression:
        position = self.expressions.constant(node).value
        items: list[exp.Expression] = self.select.expressions
        if not isinstance(position, int) or not 1 <= position <= len(items):
            hint = f"positions are 1 to {len(items)}; a constant stands in parentheses"
            raise self.fail("unknown-name", f"there is no item {position} in the SELECT list", node, hint)
        return items[position - 1]

    # Clauses over results

    def read_outputs(self) -> list[Item]:
        items = []
        for position, node in enumerate(self.select.expressions, start=1):
            inner = strip_alias(node)
            if inner is node and self.is_window_struct(inner):
                items += [Item(name, bound, inner) for name, bound in WINDOW_NAMES.items()]
                continue
            tree = self.expressions.build(inner)
            if tree.type == NULL:
                raise self.fail("type", "a bare NULL has no type", inner, "CAST(NULL AS DOUBLE) has")
            alias = self.spots.name(node.args["alias"]) if inner is not node else self.group_name(inner)
            items.append(Item(alias or natural_name(tree, position), tree, inner))
        return items

    def group_name(self, node: exp.Expression) -> str | None:
        """The name that GROUP BY gave to what this bare name stands for."""
        name = self.unbound_name(node)
        return self.scope.named[name].name if name in self.scope.named else None

    def is_window_struct(self, node: exp.Expression) -> bool:
        """SELECT window, for people who come from Spark."""
        name = self.unbound_name(node)
        return name is not None and f"{name}.start" in self.scope.named

    def complete_outputs(self, written: list[Item], groups: list[Item]) -> tuple[Output, ...]:
        """The window's bounds and the groups that the SELECT list leaves out come first."""
        present = {item.expression for item in written}
        implied = [*(Item(name, bound, self.select) for name, bound in WINDOW_NAMES.items()), *groups]
        taken = {item.name.lower() for item in written}
        missing: dict[Expression, Item] = {}
        for item in implied:
            if item.expression not in present and item.expression not in missing:
                while item.position > 0 and item.name.lower() in taken:
                    item = item.next_name()
                taken.add(item.name.lower())
                missing[item.expression] = item
        outputs: dict[str, Output] = {}
        for item in [*missing.values(), *written]:
            if item.name.lower() in outputs:
                hint = "give it another name with AS"
                raise self.fail(
                    "ambiguous-name", f"two columns of the result are called '{item.name}'", item.node, hint
                )
            outputs[item.name.lower()] = Output(item.name, item.expression)
        return tuple(outputs.values())

    def with_local_times(self, outputs: tuple[Output, ...], names: dict[str, str]) -> tuple[Output, ...]:
        """Mark the times that have no zone, because all times that they are made of have none."""
        event_time = find_column(self.source.stream.columns, self.source.stream.event_time)
        local: set[Expression] = {
            ColumnRef(names[relation.alias], column.name, column.type)
            for relation in self.scope.relations
            for column in relation.columns
            if column.is_local
        }
        if event_time is not None and event_time.is_local:
            local |= {WINDOW_START, WINDOW_END}

        def is_local(tree: Expression) -> bool:
            times = set(times_in(tree))
            return tree.type == TIMESTAMP and bool(times) and times <= local

        return tuple(replace(output, is_local=is_local(output.expression)) for output in outputs)

    def read_having(self) -> Item | None:
        node = self.select.args.get("having")
        if node is None:
            return None
        return Item("having", self.expressions.condition(node.this, "HAVING"), node)

    def read_orders(self) -> list[tuple[Item, Order]]:
        order = self.select.args.get("order")
        return [self.read_order(node) for node in order.expressions] if order is not None else []

    def read_order(self, node: exp.Expression) -> tuple[Item, Order]:
        allow(self.spots, node, "this", "desc", "nulls_first")
        inner = node.this
        if self.spots.is_number(inner):
            inner = strip_alias(self.item_at(inner))
            self.scope.named_first = False
        tree = self.expressions.build(inner)
        self.scope.named_first = True
        self.check_comparable("ORDER BY", tree, inner)
        return Item("order", tree, inner), Order(tree, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))

    def read_limit(self) -> int | None:
        limit = self.select.args.get("limit")
        if limit is None:
            return None
        allow(self.spots, limit, "expression")
        value = self.expressions.build(limit.expression)
        count = value.value if isinstance(value, Literal) else None
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_LIMIT:
            raise self.fail("limit", f"LIMIT takes a whole number from 1 to {MAX_LIMIT:,}", limit.expression)
        return count

    def check_grouped(self, tree: Expression, groups: frozenset[Expression], node: exp.Expression) -> None:
        stray = ungrouped_column(tree, groups)
        if stray is not None:
            hint = f"add {stray.name} to GROUP BY, or aggregate it: max({stray.name})"
            spot = self.column_spot(node, stray)
            raise self.fail("aggregate", f"'{stray.name}' is neither grouped nor aggregated", spot, hint)

    def column_spot(self, node: exp.Expression, column: ColumnRef) -> exp.Expression:
        for part in node.find_all(exp.Column):
            if isinstance(part.this, exp.Identifier) and self.spots.name(part.this).lower() == column.name.lower():
                return part
        return node


def times_in(tree: Expression) -> Iterator[Expression]:
    """The times that a value may be made of: columns, constants, the window's bounds. A FILTER only chooses rows."""
    parts = tree.arguments if isinstance(tree, Aggregate) else children(tree)
    if not parts and tree.type == TIMESTAMP:
        yield tree
    for part in parts:
        yield from times_in(part)


def strip_alias(node: exp.Expression) -> exp.Expression:
    return node.this if isinstance(node, exp.Alias) else node


def is_bare_name(node: exp.Expression) -> bool:
    return isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and node.args.get("table") is None


def natural_name(tree: Expression, position: int) -> str:
    """A column keeps its name; anything else is named by its function and position."""
    if isinstance(tree, ColumnRef):
        return tree.name
    if isinstance(tree, Call) and is_window_bound(tree):
        return tree.function
    if isinstance(tree, Aggregate) or (isinstance(tree, Call) and tree.function.isidentifier()):
        return f"{tree.function}_{position}"
    return f"expr_{position}"


def ungrouped_column(tree: Expression, groups: frozenset[Expression]) -> ColumnRef | None:
    """A column that stands neither inside a group-by expression nor inside an aggregate."""
    if tree in groups or isinstance(tree, Aggregate):
        return None
    if isinstance(tree, ColumnRef):
        return tree
    strays = (ungrouped_column(child, groups) for child in children(tree))
    return next((stray for stray in strays if stray is not None), None)
