"""Plans and queries as text, to keep and to send: JSON over an allow-list of classes, never a pickle.

Equal values inside are written once, and sets in a fixed order: the same plan is the same text in every process.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from decimal import Decimal
from functools import cache
from hashlib import blake2b
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints
from weakref import WeakValueDictionary

from headrace.model.errors import DataError
from headrace.model.expressions import Literal
from headrace.model.query import Query
from headrace.model.stable_names import CLASSES, TAGS, stable_text
from headrace.planner.plan import Plan
from headrace.predicates import Dimension, Predicate
from headrace.predicates.dimensions import Cut, Kind

VERSION = 4
READABLE = (2, 3, VERSION)
"""A plan of version 2 does not say which partials are compressed: none is."""
FORMER_NAMES = {"percentile": "percentile_approx", "percentile_exact": "percentile"}
RENAMED_IN = 4
"""What aggregates were called before this version."""
DIGEST_BYTES = 12

# An object is a reference {"is": place}; plain JSON values are themselves, and a list is a tuple.
DECODERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "is": lambda place, known: known.objects[place],
    "set": lambda items, known: frozenset(map(known.decode, items)),
    "map": lambda items, known: {known.decode(key): known.decode(value) for key, value in items},
    "decimal": lambda text, _: Decimal(text),
    "float": lambda text, _: float(text),
    "kind": lambda text, _: Kind(text),
}


def encode(value: object) -> str:
    """The value as text."""
    encoder = Encoder()
    whole = encoder.encode(value)
    return json.dumps({"version": VERSION, "objects": encoder.objects, "value": whole}, separators=(",", ":"))


def decode(text: str) -> Any:
    document = open_document(text)
    names = FORMER_NAMES if document["version"] < RENAMED_IN else {}
    return Decoder(document["objects"], names).decode(document["value"])


def open_document(text: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(text)
        version = document["version"]
    except (ValueError, KeyError, TypeError):
        raise DataError("encoding", "this is no encoded plan or query") from None
    if version not in READABLE:
        raise DataError("encoding", f"this plan has version {version}, this program reads up to {VERSION}")
    return document


def find_renamed(text: str, queries: Mapping[str, Query]) -> frozenset[str]:
    """Return those of the queries, decoded from the text, with aggregates that had other names when it was written.

    SQL of that time means something else now.
    """
    if open_document(text)["version"] >= RENAMED_IN:
        return frozenset()
    functions = {name: {aggregate.function for aggregate in query.aggregates()} for name, query in queries.items()}
    return frozenset(name for name, called in functions.items() if not called.isdisjoint(FORMER_NAMES.values()))


def digest_of(text: str) -> str:
    """What a plan is known by."""
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


class Encoder:
    def __init__(self) -> None:
        self.objects: list[list[Any]] = []
        self.places: dict[tuple[type, object], int] = {}

    def encode(self, value: Any) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, Kind):
            return {"kind": value.value}
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, Decimal):
            return {"decimal": str(value)}
        if isinstance(value, tuple):
            return [self.encode(item) for item in value]
        if isinstance(value, frozenset):
            return {"set": [self.encode(item) for item in sorted(value, key=stable_text)]}
        if isinstance(value, Mapping):
            return {"map": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        return {"is": self.place(value)}

    def place(self, value: Any) -> int:
        name = TAGS.get(type(value))
        if name is None:
            raise TypeError(f"{type(value).__name__} can't be encoded")
        key = type(value), id(value) if isinstance(value, Plan) else identity_key(value)
        if key not in self.places:
            encoded = [name, *(self.encode(getattr(value, field.name)) for field in fields(value))]
            self.places[key] = len(self.objects)
            self.objects.append(encoded)
        return self.places[key]


def identity_key(value: Any) -> object:
    """What values that are not the same differ in: 1 equals 1.0 and True, but not in text."""
    return repr(value) if isinstance(value, Literal | Cut | Dimension) else value


KNOWN: WeakValueDictionary[tuple[type, str], Dimension | Predicate] = WeakValueDictionary()


def share_equal(made: Dimension | Predicate) -> Dimension | Predicate:
    """One object for all that are the same, from whichever plan: so what is kept by such values finds them at once,
    without looking into them.
    """
    return KNOWN.setdefault((type(made), repr(made)), made)


class Decoder:
    def __init__(self, objects: list[list[Any]], aggregate_names: Mapping[str, str]) -> None:
        self.objects: list[Any] = []
        for name, *values in objects:
            if name not in CLASSES:
                raise DataError("encoding", f"there is no {name} in a plan")
            if name == "Aggregate" and values and isinstance(values[0], str):
                values[0] = aggregate_names.get(values[0], values[0])
            made = make_value(name, list(map(self.decode, values)))
            self.objects.append(share_equal(made) if isinstance(made, Dimension | Predicate) else made)

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(self.decode, value))
        if isinstance(value, dict):
            ((kind, content),) = value.items()
            return DECODERS[kind](content, self)
        return value


# Types of fields


@cache
def types_of(made: type) -> dict[str, Any]:
    return get_type_hints(made)


def make_value(name: str, values: list[Any]) -> Any:
    """Raise a DataError if a field would hold something else than declared: compiled loops believe what a plan says."""
    try:
        made = CLASSES[name](*values)
    except (TypeError, ValueError, ArithmeticError) as problem:
        raise DataError("encoding", f"there is no such {name} in a plan", detail=str(problem)) from None
    for field, declared in types_of(CLASSES[name]).items():
        if not fits(getattr(made, field), declared):
            raise DataError("encoding", f"there is no {name} with such a value of '{field}' in a plan")
    return made


def fits(value: Any, declared: Any) -> bool:
    origin, inner = get_origin(declared), get_args(declared)
    if origin is UnionType:
        return any(fits(value, member) for member in inner)
    if origin is tuple:
        types = inner[:1] * len(value) if inner[1:] == (...,) and isinstance(value, tuple) else inner
        return isinstance(value, tuple) and len(value) == len(types) and all(map(fits, value, types))
    if origin is frozenset:
        return isinstance(value, frozenset) and all(fits(item, inner[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, dict) and all(all(map(fits, pair, inner)) for pair in value.items())
    if declared is Any:
        return True
    if declared in (int, float):
        return type(value) is int or type(value) is declared
    return isinstance(value, declared)
