"""The picture of a plan: well-formed, without overlaps, with text that fits, whatever the plan and the names."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import combinations
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cli.plan_svg import CHARACTER, MAX_COLUMNS, WIDTH, clip_text, draw_plan, text_width
from headrace.planner.explain.description import CostDescription, NodeDescription, PlanDescription, QueryDescription

SVG = "{http://www.w3.org/2000/svg}"


def node(number: int, parent: int | None, name: str, *, inner: bool, shipped: bool) -> NodeDescription:
    return NodeDescription(
        id=f"n{number}",
        parent=None if parent is None else f"n{parent}",
        slices_per_hour=12.0,
        dimensions=[{"expression": f"{name} * 2", "kind": "interval", "cells": 4}] if inner else [],
        cells=4 if inner else 1,
        groups=[name],
        predicates=1,
        filter=f"{name} > 3",
        passes=0.5,
        partials=[f"sum({name})"],
        states=[],
        reads=1_000.0 * number,
        rows=float(number),
        cost_ns=1e6,
        close_ns=0.0,
        share=0.01,
        shipped=shipped,
        queries=[f"{name}_{number}"],
    )


def query(name: str, number: int) -> QueryDescription:
    return QueryDescription(
        name=f"{name}_{number}",
        text="",
        where=None,
        routes=[{"node": f"n{number}", "partials": [], "rows": 1.0, "of_rows": 1.0}],
        path=[{"node": f"n{number}", "other_queries": 0}],
        alone_ns=2e6,
        share_ns=1e6,
        rewrite="",
    )


def described(parents: list[int | None], name: str = "q") -> PlanDescription:
    """A plan of n1, n2, ... with these parents; nodes without children answer a query each, and so does n1."""
    inner = {parent for parent in parents if parent is not None}
    answering = [number for number in range(1, len(parents) + 1) if number not in inner or number == 1]
    cost = CostDescription(coding_ns=1e6, tree_ns=1e6, total_ns=2e6)
    return PlanDescription(
        stream=name,
        batch_rows=100_000.0,
        rows_per_s=375.0,
        plan=cost,
        alone=cost,
        ratio=1.0,
        nodes=[
            node(number, parent, name, inner=number in inner, shipped=number in answering)
            for number, parent in enumerate(parents, start=1)
        ],
        queries=[query(name, number) for number in answering],
    )


@st.composite
def trees(draw: st.DrawFn) -> list[int | None]:
    """The parent of each node: an earlier one, or the stream."""
    size = draw(st.integers(0, 60))
    return [None, *(draw(st.one_of(st.none(), st.integers(1, number))) for number in range(1, size))]


class Rectangle(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def overlaps(self, other: Rectangle) -> bool:
        beside = self.right <= other.x + 0.1 or other.right <= self.x + 0.1
        return not beside and self.y < other.bottom and other.y < self.bottom


def rectangle_of(group: ET.Element) -> Rectangle:
    rectangle = group.find(f"{SVG}rect")
    assert rectangle is not None
    return Rectangle(*(float(rectangle.attrib[key]) for key in Rectangle._fields))


def boxes(root: ET.Element) -> list[Rectangle]:
    return [rectangle_of(group) for group in root.iter(f"{SVG}g")]


def check(picture: str) -> ET.Element:
    root = ET.fromstring(picture)
    _, _, width, height = (float(number) for number in root.attrib["viewBox"].split())
    assert width == WIDTH
    for box in boxes(root):
        assert box.x >= 0
        assert box.right <= width + 0.1
        assert 0 <= box.y < box.bottom <= height
    assert not any(one.overlaps(other) for one, other in combinations(boxes(root), 2))
    for group in root.iter(f"{SVG}g"):
        box = rectangle_of(group)
        for line in group.iter(f"{SVG}text"):
            assert float(line.attrib["x"]) + text_width(line.text or "") <= box.right
            assert box.y < float(line.attrib["y"]) < box.bottom
    return root


@settings(max_examples=60, deadline=None)
@given(trees())
def test_boxes_do_not_overlap_and_text_fits(parents: list[int | None]) -> None:
    root = check(draw_plan(described(parents)))
    assert 2 <= len(boxes(root)) <= len(parents) + 2, "the stream, the nodes, and the queries that n1 answers"


@settings(max_examples=40, deadline=None)
@given(st.text(min_size=1, max_size=40))
def test_any_name_can_be_drawn(name: str) -> None:
    check(draw_plan(described([None, 1, 1], name)))


def test_names_are_text_and_nothing_else() -> None:
    picture = draw_plan(described([None, 1], '"><script>alert(1)</script>&'))
    root = check(picture)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg",
        "title",
        "style",
        "rect",
        "text",
        "path",
        "g",
    }
    assert not re.search(r"href|url\(|@import|onload", picture)


@pytest.mark.parametrize(("inner", "leaves"), [(1, 256), (3, 85), (14, 18), (40, 6)])
def test_256_queries_fit_a_screen(inner: int, leaves: int) -> None:
    parents: list[int | None] = [None] * inner
    parents += [parent for parent in range(1, inner + 1) for _ in range(leaves)]
    root = check(draw_plan(described(parents)))
    assert float(root.attrib["viewBox"].split()[3]) <= 900
    assert len(boxes(root)) <= 3 * MAX_COLUMNS


def test_a_deep_plan_grows_downwards() -> None:
    check(draw_plan(described([None, *range(1, 12)])))


def test_arcs_grow_with_the_logarithm_of_rows() -> None:
    root = check(draw_plan(described([None, 1])))
    widths = [float(path.attrib["stroke-width"]) for path in root.iter(f"{SVG}path")]
    assert len(widths) == 3
    assert all(1 <= width < 10 for width in widths)
    assert widths[1] > widths[0]


def test_the_picture_says_what_sharing_saves() -> None:
    texts = [each.text or "" for each in check(draw_plan(described([None]))).iter(f"{SVG}text")]
    assert any("each query alone: 2 ms" in line for line in texts)
    assert any("log scale" in line for line in texts)


def test_long_text_is_clipped() -> None:
    assert clip_text("short", 100) == "short"
    assert clip_text("x" * 50, 10 * CHARACTER) == "x" * 9 + "…"
