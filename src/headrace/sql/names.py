"""Names in text: which words are the language's own, and when a name needs quotes."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import Token, TokenType

from headrace.sql.tokens import DIALECT

KEYWORDS = {
    TokenType.SELECT,
    TokenType.DISTINCT,
    TokenType.FROM,
    TokenType.JOIN,
    TokenType.INNER,
    TokenType.LEFT,
    TokenType.OUTER,
    TokenType.CROSS,
    TokenType.ON,
    TokenType.USING,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
    TokenType.ALIAS,
    TokenType.AND,
    TokenType.OR,
    TokenType.NOT,
    TokenType.IN,
    TokenType.BETWEEN,
    TokenType.LIKE,
    TokenType.ESCAPE,
    TokenType.IS,
    TokenType.NULL,
    TokenType.TRUE,
    TokenType.FALSE,
    TokenType.CASE,
    TokenType.WHEN,
    TokenType.THEN,
    TokenType.ELSE,
    TokenType.END,
    TokenType.FILTER,
    TokenType.DIV,
    TokenType.ASC,
    TokenType.DESC,
}
"""Words that keep their meaning for the parser; any other word is a name, whatever other engines reserve it for."""

SUBQUERY = "subqueries, WITH and set operations are not supported: each query reads one stream directly"
OVER = "analytic functions (OVER) are not supported; a window over time is [RANGE ... SLIDE ...]"
REFUSED = {
    "WITH": SUBQUERY,
    "UNION": SUBQUERY,
    "EXCEPT": SUBQUERY,
    "INTERSECT": SUBQUERY,
    "MINUS": SUBQUERY,
    "EXISTS": SUBQUERY,
    "VALUES": SUBQUERY,
    "LATERAL": SUBQUERY,
    "OVER": OVER,
    "QUALIFY": OVER,
    "RLIKE": "regular expressions are not supported; use LIKE",
    "REGEXP": "regular expressions are not supported; use LIKE",
    "ILIKE": "write lower(x) LIKE 'pattern' instead of ILIKE",
    "FULL": "only INNER and LEFT joins to a static table are supported",
    "RIGHT": "only INNER and LEFT joins to a static table are supported",
    "NATURAL": "name the key: JOIN t ON s.key = t.key",
    "OFFSET": "a limit per window has no OFFSET; the window's offset stands in its brackets",
    "FETCH": "write LIMIT n",
    "INTERVAL": "durations only appear in windows; compare times with TIMESTAMP '...' constants",
    "SETS": "write one query per group-by; they share one plan",
    "ROLLUP": "write one query per group-by; they share one plan",
    "CUBE": "write one query per group-by; they share one plan",
}
"""Words that people bring from elsewhere, with the reason why not and what to do instead."""

INFIX = REFUSED.keys() - {"WITH", "EXISTS", "VALUES", "LATERAL", "INTERVAL"}
"""Those of them that never begin a value: where a value stands, they are names."""

RESERVED_IN_CONTEXT = {"WINDOW_START", "WINDOW_END"}


def is_keyword(token: Token) -> bool:
    return token.token_type in KEYWORDS


@lru_cache(maxsize=4096)
def quote(name: str) -> str:
    """The name as it can stand in a statement: bare if it reads back as itself, else in backticks."""
    if name.isascii() and name.isidentifier() and name.upper() not in REFUSED | dict.fromkeys(RESERVED_IN_CONTEXT):
        tokens = DIALECT.tokenize(name)
        if len(tokens) == 1 and tokens[0].text == name and not is_keyword(tokens[0]):
            return name
    return "`" + name.replace("`", "``") + "`"
