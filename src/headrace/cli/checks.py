"""Checks of single values in TOML documents: each returns the value, or raises what is expected instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.model.time import SECOND_US, parse_duration
from headrace.wire.frames import is_name


class Misfit(Exception):
    """A value that does not fit its key; the text says what does."""


Check = Callable[[Any], Any]


def text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise Misfit("a text")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Accept one text or a list of them."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values or not all(isinstance(item, str) and item for item in values):
        raise Misfit("a text or a list of texts")
    return tuple(values)


def name(value: Any) -> str:
    if not is_name(value):
        raise Misfit("a name of letters, digits, '_', '.' and '-'")
    return str(value)


def duration(value: Any) -> str:
    try:
        if parse_duration(text(value)) > 0:
            return str(value)
    except (Misfit, ValueError):
        pass
    raise Misfit("a duration such as '1 s' or '200 ms'")


def seconds(value: Any) -> float:
    return parse_duration(duration(value)) / SECOND_US


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Misfit("true or false")
    return value


def at_least(minimum: int) -> Check:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise Misfit(f"a whole number from {minimum} on")
        return value

    return check


def one_of(*choices: str) -> Check:
    def check(value: Any) -> str:
        if value not in choices:
            raise Misfit(" or ".join(choices))
        return str(value)

    return check


def section(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Misfit("a section")
    return value


def sections(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Misfit("a list of sections: [[...]]")
    return value


def setting(value: Any) -> str:
    """Accept a setting of Spark or an option of a format as the text it stands for."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int):
        raise Misfit("a text, a whole number, true or false")
    return str(value)
