"""What a query may be called. Results are files in a folder of this name, and other queries read them by it."""

from __future__ import annotations

import re
from collections.abc import Iterable

QUERY_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
QUERY_NAME_HINT = "a name has up to 64 ASCII letters, digits and underscores, a letter first"


def is_query_name(name: str) -> bool:
    return QUERY_NAME.fullmatch(name) is not None


def same_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is this one but for its case."""
    return next((other for other in known if other.lower() == name.lower()), None)
