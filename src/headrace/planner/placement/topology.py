"""A hierarchy of machines: edges that read the stream, relays above them, one root. Links make it a tree."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.model.errors import UsageError, nearest

KEYS = ("root", "stream", "relays", "edges")
ROOT = "root"


@dataclass(frozen=True, slots=True)
class Link:
    """A link from a machine to the one above it. Links into the root have level 1, those below them level 2, and so on.

    `rows_per_s` is what all edges at its lower end and below read together.
    """

    lower: str
    upper: str
    level: int
    rows_per_s: float


@dataclass(frozen=True)
class Topology:
    """A tree of machines. `above` has for each relay and edge the machine it sends to, `rows_per_s` what an edge reads.

    Without a `stream`, the edges read the only stream that queries read.
    """

    root: str
    above: Mapping[str, str]
    rows_per_s: Mapping[str, float]
    stream: str | None = None
    links: tuple[Link, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.root in self.above:
            raise UsageError("topology", f"'{self.root}' is the root, and has nothing above it")
        if not self.rows_per_s:
            raise UsageError("topology", "there is no edge", hint="add [edges.NAME] with rows_per_s")
        paths = {name: tuple(self.path(name)) for name in self.above}
        rates = dict.fromkeys(self.above, 0.0)
        for edge, rate in self.rows_per_s.items():
            for name in (edge, *paths[edge][:-1]):
                rates[name] += rate
        links = [Link(name, self.above[name], len(path), rates[name]) for name, path in paths.items()]
        object.__setattr__(self, "links", tuple(sorted(links, key=lambda link: link.level)))

    def path(self, name: str) -> Iterator[str]:
        """Yield the machines above one, up to the root."""
        seen = [name]
        while name != self.root:
            upper = self.above[name]
            if upper in seen:
                raise UsageError("topology", f"'{upper}' lies above itself: {' -> '.join([*seen, upper])}")
            if upper in self.rows_per_s:
                raise UsageError("topology", f"'{name}' lies below '{upper}', which is an edge")
            if upper != self.root and upper not in self.above:
                hint = nearest(upper, [self.root, *self.above])
                raise UsageError("topology", f"'{name}' lies below '{upper}', which is not there", hint=hint)
            yield upper
            seen.append(upper)
            name = upper

    @property
    def levels(self) -> int:
        return max(link.level for link in self.links)


def parse_topology(text: str, file: str) -> Topology:
    """Read a topology from TOML: `root`, `stream`, [relays.NAME] with `above`, [edges.NAME] with that and a rate."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise UsageError("topology", f"{file} is not TOML", detail=str(problem)) from None
    check_keys(document, KEYS, file)
    root = read_text(document, "root", file, ROOT)
    relays, edges = (read_sections(document, name, file) for name in ("relays", "edges"))
    both = relays.keys() & edges.keys()
    if both:
        raise UsageError("topology", f"{file}: '{min(both)}' is a relay and an edge")
    above, rates = {}, {}
    for name, relay in relays.items():
        check_keys(relay, ("above",), f"{file}, relay {name}")
        above[name] = read_text(relay, "above", f"{file}, relay {name}", root)
    for name, edge in edges.items():
        check_keys(edge, ("above", "rows_per_s"), f"{file}, edge {name}")
        above[name] = read_text(edge, "above", f"{file}, edge {name}", root)
        rates[name] = read_rate(edge, f"{file}, edge {name}")
    return Topology(root, above, rates, read_text(document, "stream", file, "") or None)


def check_keys(section: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    """Refuse a key that is not known."""
    for key in section:
        if key not in known:
            hint = nearest(key, known) or f"its keys are {', '.join(known)}"
            raise UsageError("topology", f"{place}: there is no key '{key}'", hint=hint)


def read_sections(document: Mapping[str, Any], name: str, file: str) -> Mapping[str, Mapping[str, Any]]:
    sections = document.get(name, {})
    if not isinstance(sections, dict) or not all(isinstance(section, dict) for section in sections.values()):
        raise UsageError("topology", f"{file}: '{name}' is not made of sections [{name}.NAME]")
    return sections


def read_text(section: Mapping[str, Any], key: str, place: str, default: str) -> str:
    value = section.get(key, default)
    if not isinstance(value, str):
        raise UsageError("topology", f"{place}: '{key}' is {value!r}, not a text")
    return value


def read_rate(section: Mapping[str, Any], place: str) -> float:
    value = section.get("rows_per_s")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        shown = "missing" if value is None else f"{value!r}, not a number above 0"
        raise UsageError("topology", f"{place}: 'rows_per_s' is {shown}")
    return float(value)
