"""From the stock parser's tree to ours: an allow-list of node types, names resolved, every node typed on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from sqlglot import TokenType, exp

from headrace.expressions.functions import FUNCTIONS, OPERATORS
from headrace.expressions.normal import MIRRORED
from headrace.model import types
from headrace.model.errors import QueryError
from headrace.model.expressions import Aggregate, Call, Expression, Literal, aggregates_in, height, walk
from headrace.sql import calls
from headrace.sql.constants import CONSTANT_CASTS, number, with_backslash_escapes
from headrace.sql.scope import Scope
from headrace.sql.stock import Spots, allow
from headrace.sql.tokens import MAX_STATEMENT_BYTES, SIMPLIFY

MAX_HEIGHT = 100
"""How many operators and functions may stand inside one another or in a row; AND, OR and || count once per row."""
SLACK = 4
"""A minus sign, FILTER or a typed constant is a level of the text but not of the tree."""
MAX_NODES = MAX_STATEMENT_BYTES
"""Bounds what BETWEEN, CASE x WHEN and names may copy; a query of this many nodes is too long when written out."""

BINARY: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
TIME_HINT = "unix_seconds(time) is a number; GROUP BY time/60 AS minute makes windows"
CONSTANT_WORDS: dict[TokenType, Literal] = {
    TokenType.NULL: Literal(None, types.NULL),
    TokenType.TRUE: Literal(True, types.BOOLEAN),
    TokenType.FALSE: Literal(False, types.BOOLEAN),
}
UNSUPPORTED_HINTS: dict[type[exp.Expression], str] = {
    exp.Star: "name the columns; count(*) counts rows",
    exp.NullSafeEQ: "write a = b OR (a IS NULL AND b IS NULL)",
    exp.NullSafeNEQ: "write NOT (a = b OR (a IS NULL AND b IS NULL))",
    exp.Tuple: "compare the columns one by one, joined by AND",
}


class ExpressionBuilder:
    """Builds expressions of one statement. `casts` are the types lifted out of it."""

    def __init__(self, spots: Spots, casts: dict[int, types.DataType], scope: Scope) -> None:
        self.spots = spots
        self.fail = spots.fail
        self.casts = casts
        self.scope = scope
        self.depth = 0
        self.nodes = 0

    def build(self, node: exp.Expression) -> Expression:
        while isinstance(node, exp.Paren):
            node = node.this
        handler = HANDLERS.get(type(node))
        if handler is None:
            hint = UNSUPPORTED_HINTS.get(type(node))
            raise self.fail("unsupported", "this kind of expression is not supported", node, hint)
        self.enter(1, node)
        tree = handler(self, node)
        self.depth -= 1
        return tree

    def enter(self, levels: int, node: exp.Expression) -> None:
        """Count levels that are about to be built, before they use up the stack."""
        self.depth += levels
        if self.depth > MAX_HEIGHT + SLACK:
            raise self.too_high(node)
        self.charge(levels, node)

    def too_high(self, node: exp.Expression) -> QueryError:
        message = f"more than {MAX_HEIGHT} operators inside one another or in a row"
        return self.fail("limit", message, node, SIMPLIFY)

    def charge(self, nodes: int, node: exp.Expression) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            message = f"written out, the query has more than {MAX_STATEMENT_BYTES >> 10} KiB"
            raise self.fail("limit", message, node, SIMPLIFY)

    def check_copies(self, tree: Expression, copies: int, node: exp.Expression) -> Expression:
        """A tree that will stand in more than one place."""
        self.charge(sum(1 for _ in walk(tree)) * copies, node)
        return tree

    def call(self, function: str, arguments: tuple[Expression, ...], node: exp.Expression) -> Call:
        """A typed call of the function table; a rule's refusal becomes an error at the spot."""
        try:
            return Call(function, arguments, FUNCTIONS[function](arguments))
        except ValueError as problem:
            subject = function.upper() if function in OPERATORS else function
            has_time = any(argument.type == types.TIMESTAMP for argument in arguments)
            hint = TIME_HINT if has_time and function in BINARY.values() else None
            raise self.fail("type", f"{subject} {problem}", node, hint) from None

    def condition(self, node: exp.Expression, clause: str) -> Expression:
        tree = self.build(node)
        if tree.type not in (types.BOOLEAN, types.NULL):
            raise self.fail("type", f"{clause} needs a condition, not {tree.type}", node)
        return tree

    def row_condition(self, node: exp.Expression, clause: str) -> Expression:
        """A condition without aggregates."""
        tree = self.condition(node, clause)
        if any(True for _ in aggregates_in(tree)):
            hint = "conditions on aggregates go into HAVING" if clause == "WHERE" else None
            raise self.fail("aggregate", f"{clause} can't hold an aggregate", node, hint)
        return tree

    # Names and constants

    def column(self, node: exp.Expression) -> Expression:
        allow(self.spots, node, "this", "table", "db", "catalog")
        tree = self.scope.column(node)
        if isinstance(tree, Call | Aggregate):
            self.check_copies(tree, 1, node)
            if self.depth + height(tree) > MAX_HEIGHT + SLACK:
                raise self.too_high(node)
        return tree

    def constant(self, node: exp.Expression) -> Literal:
        """9223372036854775808 is only a number when a minus stands before it."""
        tree = self.constant_or_limit(node)
        if tree.type == types.BIGINT and tree.value == types.MAX_BIGINT + 1:
            raise self.fail("number", "this whole number has more than 64 bits", node)
        return tree

    def constant_or_limit(self, node: exp.Expression) -> Literal:
        token = self.spots.token(node)
        if token.token_type in CONSTANT_WORDS:
            return CONSTANT_WORDS[token.token_type]
        if node.args.get("is_string"):
            return Literal(token.text, types.STRING)
        try:
            return number(token.text)
        except ValueError as problem:
            raise self.fail("number", str(problem), node) from None

    def cast_constant(self, constant: Literal, target: types.DataType, node: exp.Expression) -> Literal:
        try:
            return CONSTANT_CASTS[target.name](str(constant.value), target, self.scope.zone)
        except (ValueError, ArithmeticError) as problem:
            raise self.fail("constant", f"'{constant.value}' is not {target.name}: {problem}", node) from None

    def adapt_constants(
        self, arguments: tuple[Expression, ...], nodes: Sequence[exp.Expression]
    ) -> tuple[Expression, ...]:
        """A text constant compared with a TIMESTAMP or an ADDRESS is one."""
        targets = {argument.type for argument in arguments} & {types.TIMESTAMP, types.ADDRESS}
        if len(targets) != 1:
            return arguments
        (target,) = targets
        return tuple(
            self.cast_constant(argument, target, node)
            if isinstance(argument, Literal) and isinstance(argument.value, str)
            else argument
            for argument, node in zip(arguments, nodes, strict=True)
        )

    # Operators

    def negative(self, node: exp.Expression) -> Expression:
        operand = node.this
        while isinstance(operand, exp.Paren):
            operand = operand.this
        inner = self.constant_or_limit(operand) if isinstance(operand, exp.Literal) else self.build(operand)
        if isinstance(inner, Literal) and isinstance(inner.value, int | float | Decimal) and inner.type.is_numeric:
            if inner.type == types.BIGINT and inner.value == types.MIN_BIGINT:
                raise self.fail("number", "this whole number has more than 64 bits", node)
            return Literal(inner.value.copy_negate() if isinstance(inner.value, Decimal) else -inner.value, inner.type)
        return self.call("negate", (inner,), node)

    def binary(self, node: exp.Expression) -> Expression:
        """Chains such as a + b + c lean to the left: walk down the chain instead of recursing into it."""
        chain = left_chain(node, tuple(BINARY))
        self.enter(len(chain) - 1, node)
        tree = self.build(chain[-1].this)
        for link in reversed(chain):
            operator = BINARY[type(link)]
            arguments: tuple[Expression, ...] = (tree, self.build(link.expression))
            if operator in MIRRORED:
                arguments = self.adapt_constants(arguments, (link.this, link.expression))
            tree = self.call(operator, arguments, link)
        self.depth -= len(chain) - 1
        return tree

    def connective(self, node: exp.Expression) -> Expression:
        """AND and OR chains may be long; they are flattened without recursion."""
        function = "and" if isinstance(node, exp.And) else "or"
        pending, operands = [node], []
        while pending:
            current = pending.pop()
            if type(current) is type(node):
                pending += [current.expression, current.this]
            else:
                operands.append(self.build(current))
        return self.call(function, tuple(operands), node)

    def concatenation(self, node: exp.Expression) -> Expression:
        chain = left_chain(node, (exp.DPipe,))
        sides = [chain[-1].this, *(link.expression for link in reversed(chain))]
        parts: list[Expression] = []
        for side in sides:
            tree = self.build(side)
            parts += tree.arguments if isinstance(tree, Call) and tree.function == "concat" else (tree,)
        return self.call("concat", tuple(parts), node)

    def negation(self, node: exp.Expression) -> Expression:
        return self.call("not", (self.build(node.this),), node)

    def test(self, node: exp.Expression) -> Expression:
        """X IS NULL, TRUE, FALSE."""
        tested = node.expression
        if isinstance(tested, exp.Null):
            name = "is_null"
        elif isinstance(tested, exp.Boolean):
            name = "is_true" if tested.this else "is_false"
        else:
            raise self.fail("unsupported", "IS compares with NULL, TRUE or FALSE only", node)
        return self.call(name, (self.build(node.this),), node)

    def membership(self, node: exp.Expression) -> Expression:
        allow(self.spots, node, "this", "expressions")
        self.enter(1, node)
        subject = self.build(node.this)
        candidates = tuple(self.build(candidate) for candidate in node.expressions)
        self.depth -= 1
        subject, *adapted = self.adapt_constants((subject, *candidates), (node.this, *node.expressions))
        if all(isinstance(candidate, Literal) for candidate in adapted):
            return self.call("in", (subject, *adapted), node)
        self.check_copies(subject, len(adapted), node)
        return self.call("or", tuple(self.call("=", (subject, candidate), node) for candidate in adapted), node)

    def between(self, node: exp.Expression) -> Expression:
        allow(self.spots, node, "this", "low", "high")
        self.enter(1, node)
        subject = self.check_copies(self.build(node.this), 2, node)
        low, high = (
            self.adapt_constants((subject, self.build(bound)), (node.this, bound))
            for bound in (node.args["low"], node.args["high"])
        )
        self.depth -= 1
        return self.call("and", (self.call(">=", low, node), self.call("<=", high, node)), node)

    def like_escape(self, node: exp.Expression) -> Expression:
        escape = self.build(node.expression)
        character = escape.value if isinstance(escape, Literal) else None
        if not isinstance(node.this, exp.Like) or not isinstance(character, str) or len(character) != 1:
            raise self.fail("syntax", "ESCAPE needs one character", node.expression)
        return self.like(node.this, character)

    def like(self, node: exp.Expression, escape: str = "\\") -> Expression:
        allow(self.spots, node, "this", "expression", "negate")
        pattern = self.build(node.expression)
        if isinstance(pattern, Literal) and isinstance(pattern.value, str):
            try:
                pattern = Literal(with_backslash_escapes(pattern.value, escape), types.STRING)
            except ValueError as problem:
                raise self.fail("pattern", str(problem), node.expression) from None
        self.enter(1, node)
        tree = self.call("like", (self.build(node.this), pattern), node)
        self.depth -= 1
        return self.call("not", (tree,), node) if node.args.get("negate") else tree

    def case(self, node: exp.Expression) -> Expression:
        branches, default = node.args["ifs"], node.args.get("default")
        subject = None
        if node.args.get("this") is not None:
            self.enter(1, node)
            subject = self.check_copies(self.build(node.this), len(branches), node)
            self.depth -= 1
        arguments: list[Expression] = []
        for branch in branches:
            condition = self.build(branch.this)
            if subject is not None:
                condition = self.call("=", self.adapt_constants((subject, condition), (node.this, branch.this)), branch)
            arguments += [condition, self.build(branch.args["true"])]
        arguments.append(self.build(default) if default is not None else Literal(None, types.NULL))
        return self.call("case", tuple(arguments), node)


def left_chain(node: exp.Expression, kinds: tuple[type[exp.Expression], ...]) -> list[exp.Expression]:
    """The node, its left operand, the left operand of that, as long as they are of these kinds."""
    chain = [node]
    while isinstance(chain[-1].this, kinds):
        chain.append(chain[-1].this)
    return chain


Handler = Callable[[ExpressionBuilder, exp.Expression], Expression]
HANDLERS: dict[type[exp.Expression], Handler] = {
    exp.Column: ExpressionBuilder.column,
    exp.Literal: ExpressionBuilder.constant,
    exp.Neg: ExpressionBuilder.negative,
    exp.Not: ExpressionBuilder.negation,
    exp.And: ExpressionBuilder.connective,
    exp.Or: ExpressionBuilder.connective,
    exp.Is: ExpressionBuilder.test,
    exp.In: ExpressionBuilder.membership,
    exp.Between: ExpressionBuilder.between,
    exp.Like: ExpressionBuilder.like,
    exp.Escape: ExpressionBuilder.like_escape,
    exp.Case: ExpressionBuilder.case,
    exp.DPipe: ExpressionBuilder.concatenation,
    exp.Anonymous: calls.function,
    exp.Filter: calls.build_filter,
    **dict.fromkeys(BINARY, ExpressionBuilder.binary),
}
