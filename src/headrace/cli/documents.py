"""The keys of a job file: one table of them per section, each with the check of its value."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headrace.engine.edge_inbox import PUSHES
from headrace.inputs.text_file import read_text
from headrace.model.errors import UsageError, nearest
from headrace.model.time import parse_duration

ON_BAD_FILE = ("stop", "quarantine")
SINK_KINDS = ("parquet", "json", "console")


class Misfit(Exception):
    """A value that is not what its key asks for; the text says what that is."""


Check = Callable[[Any], Any]


def text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise Misfit("a text")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """One text, or a list of them."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(each, str) and each for each in found):
        raise Misfit("a text or a list of texts")
    return tuple(found)


def duration(value: Any) -> str:
    try:
        if parse_duration(text(value)) > 0:
            return str(value)
    except (Misfit, ValueError):
        pass
    raise Misfit("a duration such as '1 s' or '200 ms'")


def at_least(least: int) -> Check:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise Misfit(f"a whole number from {least} on")
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
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise Misfit("a list of sections: [[...]]")
    return value


def setting(value: Any) -> str:
    """A setting of Spark or an option of a format, which are texts; TOML's own true, false and numbers will do."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int):
        raise Misfit("a text, a whole number, true or false")
    return str(value)


class Key(NamedTuple):
    check: Check
    is_needed: bool = False


JOB: Mapping[str, Key] = {
    "schema": Key(text, True),
    "queries": Key(texts, True),
    "functions": Key(text),
    "state": Key(text, True),
    "master": Key(text),
    "trigger": Key(duration),
    "streams": Key(section, True),
    "tables": Key(section),
    "sinks": Key(sections),
    "edges": Key(section),
    "engine": Key(section),
    "quotas": Key(section),
    "spark": Key(section),
}
INPUT: Mapping[str, Key] = {"path": Key(text, True), "format": Key(text), "options": Key(section)}
STREAM: Mapping[str, Key] = {
    **INPUT,
    "path": Key(text),
    "edges": Key(texts),
    "frames": Key(text),
    "push": Key(one_of(*PUSHES)),
}
EDGES: Mapping[str, Key] = {"listen": Key(text), "token_file": Key(text), "hosts": Key(texts)}
SINK: Mapping[str, Key] = {"kind": Key(one_of(*SINK_KINDS), True), "path": Key(text), "rows": Key(at_least(1))}
ENGINE: Mapping[str, Key] = {
    "reducers": Key(at_least(1)),
    "on_bad_file": Key(one_of(*ON_BAD_FILE)),
    "max_empty": Key(at_least(0)),
    "max_result_rows": Key(at_least(1)),
    "retain": Key(duration),
    "step_bytes": Key(at_least(1)),
}
QUOTAS: Mapping[str, Key] = {
    "queries": Key(at_least(1)),
    "state_bytes": Key(at_least(1)),
    "groups": Key(at_least(1)),
    "seconds": Key(at_least(1)),
}


def read_document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(str(path)))
    except tomllib.TOMLDecodeError as problem:
        raise UsageError("job", f"{path} is not TOML", detail=str(problem)) from None


def checked(path: Path, document: Mapping[str, Any], keys: Mapping[str, Key], where: str = "") -> dict[str, Any]:
    """The values of a section, which has no key but these and all that it needs."""
    place = f"{path}, {where}" if where else str(path)
    for name in document:
        if name not in keys:
            hint = nearest(name, keys) or f"its keys are {', '.join(keys)}"
            raise UsageError("job", f"{place}: there is no key '{name}'", hint=hint)
    for name, key in keys.items():
        if key.is_needed and name not in document:
            raise UsageError("job", f"{place}: '{name}' is missing")
    return {name: value_of(place, name, value, keys[name].check) for name, value in document.items()}


def value_of(place: str, name: str, value: Any, check: Check) -> Any:
    try:
        return check(value)
    except Misfit as problem:
        raise UsageError("job", f"{place}: '{name}' is {value!r}, not {problem}") from None


def settings_of(path: Path, document: Mapping[str, Any], where: str, prefix: str = "") -> dict[str, str]:
    """Names with dots: TOML reads those without quotes as sections inside one another."""
    found: dict[str, str] = {}
    for name, value in document.items():
        if isinstance(value, dict):
            found |= settings_of(path, value, where, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value_of(f"{path}, {where}", f"{prefix}{name}", value, setting)
    return found
