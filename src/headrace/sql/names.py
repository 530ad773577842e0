"""Names in text: which words are the language's own, and when a name needs quotes."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import Token

from headrace.sql.tokens import DIALECT, token_types

KEYWORDS = token_types(
    "SELECT DISTINCT FROM JOIN INNER LEFT OUTER CROSS ON USING WHERE GROUP_BY HAVING ORDER_BY LIMIT ALIAS "
    "AND OR NOT IN BETWEEN LIKE ESCAPE IS NULL TRUE FALSE CASE WHEN THEN ELSE END FILTER DIV ASC DESC"
)
"""Words that keep their meaning for the parser; any other word is a name, whatever other engines reserve it for."""

SUBQUERY = "subqueries, WITH and set operations are not supported: each query reads one stream directly"
OVER = "analytic functions (OVER) are not supported; a window over time is [RANGE ... SLIDE ...]"
JOINS = "only INNER and LEFT joins to a static table are supported"
REFUSED = {
    **dict.fromkeys("WITH UNION EXCEPT INTERSECT MINUS EXISTS VALUES LATERAL".split(), SUBQUERY),
    "OVER": OVER,
    "QUALIFY": OVER,
    "RLIKE": "regular expressions are not supported; use LIKE",
    "REGEXP": "regular expressions are not supported; use LIKE",
    "ILIKE": "write lower(x) LIKE 'pattern' instead of ILIKE",
    "FULL": JOINS,
    "RIGHT": JOINS,
    "NATURAL": "name the key: JOIN t ON s.key = t.key",
    "OFFSET": "a limit per window has no OFFSET; the window's offset stands in its brackets",
    "FETCH": "write LIMIT n",
    "INTERVAL": "durations only appear in windows; compare times with TIMESTAMP '...' constants",
    **dict.fromkeys(("SETS", "ROLLUP", "CUBE"), "write one query per group-by; they share one plan"),
}
"""Words that people bring from elsewhere, with the reason why not and what to do instead."""

INFIX = REFUSED.keys() - {"WITH", "EXISTS", "VALUES", "LATERAL", "INTERVAL"}
"""Those of them that never begin a value: where a value stands, they are names."""

QUOTED_NAMES = REFUSED.keys() | {"WINDOW_START", "WINDOW_END"}


def is_keyword(token: Token) -> bool:
    return token.token_type in KEYWORDS


@lru_cache(maxsize=4096)
def quote(name: str) -> str:
    """The name as it can stand in a statement: bare if it reads back as itself, else in backticks."""
    if name.isascii() and name.isidentifier() and name.upper() not in QUOTED_NAMES:
        tokens = DIALECT.tokenize(name)
        if len(tokens) == 1 and tokens[0].text == name and not is_keyword(tokens[0]):
            return name
    return "`" + name.replace("`", "``") + "`"
