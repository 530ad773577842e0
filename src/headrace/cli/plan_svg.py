"""A plan as a picture: SVG with the stream at the top, one box per node, and queries folded into groups below."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from xml.sax.saxutils import escape, quoteattr

from headrace.model.errors import printable
from headrace.planner.explain.description import PlanDescription
from headrace.planner.explain.labels import count_noun, duration, figure, fold_names, percent, times_cheaper
from headrace.planner.explain.similar_nodes import NodeFold, folds, merge_siblings

WIDTH, MARGIN, TOP, BOTTOM = 1_600, 20, 76, 56
BOX_HEIGHT, LEVEL_HEIGHT, GAP = 106, 154, 14
MAX_BOX_WIDTH, MAX_INNER_BOX_WIDTH = 220, 300
FONT, LINE_HEIGHT, PADDING = 11, 16, 5
CHARACTER = 0.6 * FONT
"""The width of a character, on the safe side."""
MAX_SIBLINGS, MAX_COLUMNS = 12, 15

STYLE = """
text { font: 11px system-ui, sans-serif; fill: #24384a }
.head { font-size: 18px; font-weight: 600 } .sum { font-size: 13px } .first { font-weight: 600 }
.paper { fill: #f7f9fb } .arc { fill: none; stroke: #7fb7e6; stroke-linecap: round }
rect.stream { fill: #7fb7e6; stroke: #2f78b7 } rect.node { fill: #dcebf7; stroke: #2f78b7 }
rect.shipped { fill: #cfe8d5; stroke: #2e7d4f } rect.queries { fill: #f3e6d3; stroke: #8a5a2b }
@media (prefers-color-scheme: dark) {
  text { fill: #dbe6ef } .paper { fill: #14202b } .arc { stroke: #3d74a3 }
  rect.stream { fill: #1f5685 } rect.node { fill: #1d3347 } rect.shipped { fill: #1b3d2a }
  rect.queries { fill: #43331f }
}
"""
KINDS = (
    ("node", "computed in the task"),
    ("shipped", "computed and shipped"),
    ("queries", "queries: how many, the first and the last"),
)


@dataclass(frozen=True)
class Box:
    """What is drawn in one place; `reads` are the rows on the arc that leads to it."""

    kind: str
    lines: tuple[str, ...]
    tip: str
    reads: float = 0.0
    children: tuple[Box, ...] = ()

    @property
    def columns(self) -> int:
        return sum(child.columns for child in self.children) or 1


@dataclass(frozen=True, slots=True)
class PlacedBox:
    box: Box
    x: float
    y: float
    width: float
    parent: PlacedBox | None = None

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def draw_plan(description: PlanDescription) -> str:
    placed = place_boxes(stream_box(description))
    height = max(place.y for place in placed) + BOX_HEIGHT + BOTTOM
    title = f"The plan of {count_noun(len(description['queries']), 'query', 'queries')} over {description['stream']}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f"aria-label={quoteattr(printable(title))}>",
        f"<title>{xml(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height:g}" rx="12"/>',
        text(MARGIN, 32, title, "head"),
        text(MARGIN, 54, cost_text(description), "sum"),
        *(arc(place) for place in placed if place.parent is not None),
        *(draw_box(place) for place in placed),
        *legend(height - BOTTOM / 2),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def cost_text(description: PlanDescription) -> str:
    shared, alone = description["plan"], description["alone"]
    return (
        f"{duration(shared['total_ns'])} per task and batch, of it {duration(shared['coding_ns'])} for coding of rows; "
        f"each query alone: {duration(alone['total_ns'])}, of it {duration(alone['coding_ns'])} for coding; "
        f"{times_cheaper(description['ratio'])}"
    )


# From the description to boxes


def stream_box(description: PlanDescription) -> Box:
    closing = closing_queries(description)
    top = folds(description)
    children: tuple[Box, ...] = ()
    for most in range(MAX_SIBLINGS, 0, -1):
        children = tuple(box_of(fold, closing) for fold in limit_siblings(top, most))
        if sum(child.columns for child in children) <= MAX_COLUMNS:
            break
    lines = description["stream"], f"{figure(description['batch_rows'])} rows", "per task and batch"
    return Box("stream", lines, description["stream"], children=children)


def closing_queries(description: PlanDescription) -> dict[str, list[str]]:
    """Return the queries whose windows are combined from each shipped node."""
    names: dict[str, list[str]] = {}
    for query in description["queries"]:
        for route in query["routes"]:
            names.setdefault(route["node"], []).append(query["name"])
    return names


def limit_siblings(siblings: Sequence[NodeFold], most: int) -> tuple[NodeFold, ...]:
    """Keep at most `most` inner nodes and `most` leaves side by side, here and below; the last one holds the rest."""
    smaller = [replace(fold, children=limit_siblings(fold.children, most)) for fold in siblings]
    result: list[NodeFold] = []
    for is_inner in (True, False):
        kind = [fold for fold in smaller if bool(fold.children) == is_inner]
        if len(kind) > most:
            whole = merge_siblings(kind[most - 1 :])
            kind[most - 1 :] = [replace(whole, children=limit_siblings(whole.children, most))]
        result += kind
    return tuple(result)


def box_of(fold: NodeFold, closing: dict[str, list[str]]) -> Box:
    answered = list(dict.fromkeys(name for node in fold.nodes for name in closing.get(node["id"], [])))
    is_leaf = not fold.children and not any(node["dimensions"] for node in fold.nodes)
    tip = "\n".join(tip_lines(fold))
    reads = sum(node["reads"] for node in fold.nodes)
    if is_leaf:
        lines = [*names_lines(answered), *node_lines(fold)]
        return Box("queries" if len(fold.nodes) > 1 else "shipped", tuple(lines), tip, reads)
    children = [box_of(child, closing) for child in fold.children]
    if answered:
        children.append(Box("queries", (*names_lines(answered), "at close"), ", ".join(answered), fold.rows))
    return Box("shipped" if answered else "node", tuple(node_lines(fold)), tip, reads, tuple(children))


def names_lines(names: Sequence[str]) -> list[str]:
    """Return how many queries there are, the first and the last of them."""
    if len(names) == 1:
        return [names[0]]
    return [count_noun(len(names), "query", "queries"), names[0], names[-1]]


def node_lines(fold: NodeFold) -> Iterator[str]:
    first, is_one = fold.nodes[0], len(fold.nodes) == 1
    yield first["id"] if is_one else count_noun(len(fold.nodes), "node")
    yield f"{figure(round(fold.rows))} rows"
    yield f"{duration(fold.cost_ns)} {percent(fold.share)}"
    if is_one and first["groups"]:
        yield "by " + ", ".join(first["groups"])
    if is_one and first["cells"] > 1:
        largest_first = sorted(first["dimensions"], key=lambda dimension: -dimension["cells"])
        yield f"{first['cells']:,} cells of " + ", ".join(dimension["expression"] for dimension in largest_first)
    if is_one:
        yield f"{figure(first['slices_per_hour'])} slices/h"


def tip_lines(fold: NodeFold) -> Iterator[str]:
    """Yield what a pointer shows."""
    first = fold.nodes[0]
    yield fold.label
    if len(fold.nodes) == 1:
        yield from (f"{dimension['expression']}: {dimension['cells']} cells" for dimension in first["dimensions"])
        if first["filter"]:
            yield f"where {first['filter']}"
    yield ", ".join(first["partials"])
    yield fold_names(fold.queries)


# From boxes to places


def place_boxes(root: Box) -> list[PlacedBox]:
    column = min((WIDTH - 2 * MARGIN + GAP) / root.columns, MAX_BOX_WIDTH + GAP)
    whole = column * root.columns - GAP
    return list(place_box(root, (WIDTH - whole) / 2, TOP, column, None))


def place_box(box: Box, left: float, y: float, column: float, parent: PlacedBox | None) -> Iterator[PlacedBox]:
    """Place the box in the middle above its children; it is never wider than they are together."""
    room = column * box.columns - GAP
    width = min(room, MAX_INNER_BOX_WIDTH)
    here = PlacedBox(box, left + (room - width) / 2, y, width, parent)
    yield here
    for child in box.children:
        yield from place_box(child, left, y + LEVEL_HEIGHT, column, here)
        left += column * child.columns


# From places to SVG


def draw_box(place: PlacedBox) -> str:
    box, room = place.box, place.width - 2 * PADDING
    most = (BOX_HEIGHT - PADDING) // LINE_HEIGHT
    parts = [
        f"<g><title>{xml(box.tip, keep_lines=True)}</title>",
        f'<rect class="{box.kind}" x="{place.x:.1f}" y="{place.y:.1f}" width="{place.width:.1f}" '
        f'height="{BOX_HEIGHT}" rx="6"/>',
    ]
    for number, line in enumerate(box.lines[:most]):
        y = place.y + PADDING + LINE_HEIGHT * (number + 1) - 3
        parts.append(text(place.x + PADDING, y, clip_text(line, room), "first" if number == 0 else "line"))
    return "".join([*parts, "</g>"])


def arc(place: PlacedBox) -> str:
    assert place.parent is not None
    start, end = place.parent.y + BOX_HEIGHT, place.y
    half = (start + end) / 2
    width = 1 + 1.5 * math.log10(1 + place.box.reads)
    return (
        f'<path class="arc" stroke-width="{width:.1f}" d="M{place.parent.middle:.1f} {start:.1f} '
        f'C{place.parent.middle:.1f} {half:.1f} {place.middle:.1f} {half:.1f} {place.middle:.1f} {end:.1f}"/>'
    )


def legend(y: float) -> Iterator[str]:
    x: float = MARGIN
    for kind, meaning in KINDS:
        yield f'<rect class="{kind} key" x="{x:.1f}" y="{y - 10:.1f}" width="14" height="14" rx="3"/>'
        yield text(x + 20, y + 1, meaning, "line")
        x += 40 + text_width(meaning)
    yield text(x, y + 1, "width of an arc: rows that are read, on a log scale", "line")


def text(x: float, y: float, content: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{xml(content)}</text>'


def xml(content: str, *, keep_lines: bool = False) -> str:
    """Return text that can stand in XML, whatever the names in it are."""
    lines = content.split("\n") if keep_lines else [content]
    return escape("\n".join(printable(line) for line in lines))


def text_width(content: str) -> float:
    return sum(CHARACTER * (1.7 if unicodedata.east_asian_width(char) in "WF" else 1.0) for char in content)


def clip_text(content: str, room: float) -> str:
    """Return the text, or as much of its beginning as there is room for."""
    if text_width(content) <= room:
        return content
    while content and text_width(content + "…") > room:
        content = content[:-1]
    return content + "…"
