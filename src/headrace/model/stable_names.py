"""Names under which values are stored: the program may rename its classes and fields, its files keep theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from typing import TypeVar

Value = TypeVar("Value")

CLASSES: dict[str, type] = {}
TAGS: dict[type, str] = {}
PLAIN = (type(None), bool, int, float, str, bytes, Decimal)
LABELS: dict[type, tuple[tuple[str, str], ...]] = {}
"""For each class, its stored field names beside the names of the attributes."""


def stored(tag: str, *labels: str) -> Callable[[type[Value]], type[Value]]:
    """Return a class decorator that gives a dataclass the tag and the field names of stored values.

    The fields are listed in their order; a new field is added at the end of the class and of the list.
    """

    def register(made: type[Value]) -> type[Value]:
        CLASSES[tag], TAGS[made] = made, tag
        LABELS[made] = tuple(zip(labels, (field.name for field in fields(made)), strict=True))  # type: ignore[arg-type]
        return made

    return register


def stable_text(value: object) -> str:
    """Return the text of a value that digests and stored orders are made of: equal in every version of the program."""
    labels = LABELS.get(type(value))
    if labels is not None:
        inner = ", ".join([f"{label}={stable_text(getattr(value, name))}" for label, name in labels])
        return f"{TAGS[type(value)]}({inner})"
    if type(value) is tuple:
        inner = ", ".join([stable_text(item) for item in value])
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if type(value) is list:
        return f"[{', '.join([stable_text(item) for item in value])}]"
    if type(value) not in PLAIN:
        raise TypeError(f"{type(value).__name__} has no stable text")
    return repr(value)
