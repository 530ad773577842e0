"""TOML documents: sections with their keys, and the files that they name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from headrace.cli import checks
from headrace.cli.checks import Check, Misfit
from headrace.edge.sender import exchange_at
from headrace.inputs.text_file import read_text
from headrace.model.errors import UsageError, nearest
from headrace.model.schema import Stream
from headrace.storage.disk import local_path
from headrace.storage.store import is_remote
from headrace.storage.store import locate as locate_store
from headrace.wire.exchange import Exchange
from headrace.wire.tokens import read_token

URL = ("http://", "https://")


class Key(NamedTuple):
    check: Check
    is_needed: bool = False


def read_document(file: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return tomllib.loads(read_text(str(file)))
    except tomllib.TOMLDecodeError as problem:
        raise UsageError("job", f"{file} is not TOML", detail=str(problem)) from None


def check_section(file: Path, document: Mapping[str, Any], keys: Mapping[str, Key], where: str = "") -> dict[str, Any]:
    """Return the checked values of a section. It must have all keys that are needed, and no others than `keys`."""
    place = f"{file}, {where}" if where else str(file)
    for key in document:
        if key not in keys:
            hint = nearest(key, keys) or f"its keys are {', '.join(keys)}"
            raise UsageError("job", f"{place}: there is no key '{key}'", hint=hint)
    for key, rule in keys.items():
        if rule.is_needed and key not in document:
            raise UsageError("job", f"{place}: '{key}' is missing")
    return {key: check_value(place, key, value, keys[key].check) for key, value in document.items()}


def check_value(place: str, key: str, value: Any, check: Check) -> Any:
    """Return a checked value, or raise an error with its place and key."""
    try:
        return check(value)
    except Misfit as problem:
        raise UsageError("job", f"{place}: '{key}' is {value!r}, not {problem}") from None


def read_settings(file: Path, document: Mapping[str, Any], where: str, prefix: str = "") -> dict[str, str]:
    """Return settings by their dotted names, which TOML reads as nested sections unless they are quoted."""
    settings: dict[str, str] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            settings |= read_settings(file, value, where, f"{prefix}{key}.")
        else:
            settings[f"{prefix}{key}"] = check_value(f"{file}, {where}", f"{prefix}{key}", value, checks.setting)
    return settings


# What values name


def locate(file: Path, text: str) -> Path:
    """Return a path relative to the folder of a document. One with a scheme must be of this file system."""
    return local_path(text) if ":/" in text else local_path(file.absolute().parent / text)


def locate_state(file: Path, text: str) -> str:
    """Return where a state is: a path relative to the folder of a document, or the URL of an object store."""
    return locate_store(text if is_remote(text) else locate(file, text))


def find_file(file: Path, document: Mapping[str, Any], key: str) -> Path:
    """Return the file that a key of a document names. It must exist."""
    path: Path = file.absolute().parent / document[key]
    if not path.is_file():
        raise UsageError("job", f"{file}: '{key}' names {path}, and there is no such file")
    return path


def find_optional_file(file: Path, document: Mapping[str, Any], key: str) -> Path | None:
    return find_file(file, document, key) if key in document else None


# Where frames go


SHIP: Mapping[str, Key] = {
    "to": Key(checks.text, True),
    "token_file": Key(checks.text),
    "allow_plain": Key(checks.boolean),
    "every": Key(checks.seconds),
    "poll": Key(checks.seconds),
}
"""The keys of `[ship]` that edges and relays share."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where an edge or a relay sends its frames: a URL or a directory, with the token to send with, if it has one."""

    to: Path | str
    token: str | None = None
    allow_plain: bool = False

    def connect(self, stream: Stream) -> Exchange:
        return exchange_at(self.to, stream.name, self.token, allow_plain=self.allow_plain)


def make_destination(file: Path, ship: Mapping[str, Any]) -> Destination:
    """Return the destination that a checked `[ship]` names."""
    to: str = ship["to"]
    path = find_optional_file(file, ship, "token_file")
    token = None if path is None else read_token(path)
    return Destination(to if to.startswith(URL) else locate(file, to), token, ship.get("allow_plain", False))
