"""What the methods of an object return, kept as long as the object lives."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def memoize(method: Method) -> Method:
    """Keep what a method of one argument returns. Unlike a cache of the class, this keeps no object alive."""
    name = f"known_{method.__name__}"

    @wraps(method)
    def look_up(self: Any, key: Any) -> Any:
        known = self.__dict__.setdefault(name, {})
        if key not in known:
            known[key] = method(self, key)
        return known[key]

    return cast(Method, look_up)
