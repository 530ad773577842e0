"""What a query may be called. Results are files in a folder of this name, and other queries read them by it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.model.errors import UsageError

QUERY_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
QUERY_NAME_CODE = "query-name"
QUERY_NAME_HINT = "a name has up to 64 ASCII letters, digits and underscores, a letter first"


def is_query_name(name: str) -> bool:
    return QUERY_NAME.fullmatch(name) is not None


def check_query_name(name: object, known: Iterable[str] = ()) -> None:
    """Raise an error if a new query can't have the name, or if one of the known names is the same but for its case."""
    if not isinstance(name, str) or not is_query_name(name):
        raise UsageError(QUERY_NAME_CODE, f"'{name}' can't be the name of a query", hint=QUERY_NAME_HINT)
    if (other := same_name(name, known)) is not None:
        raise UsageError("query-exists", f"there is a query '{other}' already")


def same_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is this one but for its case."""
    return next((other for other in known if other.lower() == name.lower()), None)
