"""The description of a plan as text: the tree, what it costs, and who answers whom."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from headrace.model.errors import printable
from headrace.planner.explain.description import AdditionDescription, NodeDescription, PlanDescription, QueryDescription
from headrace.planner.explain.labels import count_noun, duration, figure, fold_names, percent, times_cheaper
from headrace.planner.explain.similar_nodes import NodeFold, folds

WIDTH = 80
LABEL = 10
"""Characters before the text of a detail."""


def text(description: PlanDescription, names: Sequence[str] = (), width: int = WIDTH) -> str:
    """The plan, then the queries of these names, or without names who is answered by which node."""
    chosen = [query for query in description["queries"] if query["name"] in names]
    sections = [list(tree_lines(description, width)), list(cost_lines(description))]
    sections += [list(query_lines(query, width)) for query in chosen] or [list(summary_lines(description, width))]
    if "added" in description:
        sections.append(list(addition_lines(description["added"], width)))
    return "\n\n".join("\n".join(printable(line).rstrip() for line in section) for section in sections) + "\n"


def tree_lines(description: PlanDescription, width: int) -> Iterator[str]:
    shipped = sum(node["shipped"] for node in description["nodes"])
    queries = count_noun(len(description["queries"]), "query", "queries")
    nodes = count_noun(len(description["nodes"]), "node")
    yield f"{description['stream']}: {queries}, {nodes}, {shipped:,} of them shipped"
    yield ""
    rows, rate = (figure(description[key]) for key in ("batch_rows", "rows_per_s"))
    yield f"stream  {rows} rows per task and batch, {rate} a second"
    yield from branches(folds(description), "", width)


def branches(siblings: Sequence[NodeFold], margin: str, width: int) -> Iterator[str]:
    for fold in siblings:
        is_last = fold is siblings[-1]
        beside = margin + ("   " if is_last else "│  ")
        yield f"{margin}{'└─ ' if is_last else '├─ '}{headline(fold)}"
        details = beside + ("│  " if fold.children else "   ")
        for label, value in detail_pairs(fold):
            yield from label_lines(label, value, details, width)
        yield from branches(fold.children, beside, width)


def headline(fold: NodeFold) -> str:
    many = f"  {count_noun(len(fold.nodes), 'node')}," if len(fold.nodes) > 1 else " "
    shipped = ", shipped" if any(node["shipped"] for node in fold.nodes) else ""
    rows, cost = counted_figure(fold.rows, "row"), duration(fold.cost_ns)
    return f"{fold.label}{many} {rows}, {cost} ({percent(fold.share)}){shipped}"


def detail_pairs(fold: NodeFold) -> Iterator[tuple[str, str]]:
    """What is said of a node; what it has not is left out."""
    first = fold.nodes[0]
    yield "reads", span([round(node["reads"]) for node in fold.nodes]) + f" rows of {first['parent'] or 'the stream'}"
    yield "slices", f"{span([node['slices_per_hour'] for node in fold.nodes])} per hour"
    if len(fold.nodes) == 1 and first["dimensions"]:
        yield "cells", cells_text(first)
    if first["groups"]:
        yield "group by", ", ".join(first["groups"])
    if any(node["predicates"] for node in fold.nodes):
        yield "filter", filter_text(first) if len(fold.nodes) == 1 else "each its own"
    yield "partials", ", ".join(first["partials"])
    if first["states"]:
        yield "states", "; ".join(first["states"])
    yield "serves", fold_names(fold.queries)


def cells_text(node: NodeDescription) -> str:
    return f"{node['cells']:,}: " + ", ".join(
        f"{dimension['expression']} ({dimension['cells']})" for dimension in node["dimensions"]
    )


def filter_text(node: NodeDescription) -> str:
    what = node["filter"] or f"{node['predicates']:,} predicates coalesced"
    return f"{what}; {percent(node['passes'])} of the stream passes"


def label_lines(label: str, value: str, margin: str, width: int) -> Iterator[str]:
    room = max(width - len(margin) - LABEL, 20)
    lines = textwrap.wrap(printable(value), room, break_long_words=False, break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        yield f"{margin}{label if number == 0 else '':<{LABEL}}{line}"


def span(values: Sequence[float]) -> str:
    low, high = figure(min(values)), figure(max(values))
    return low if low == high else f"{low} to {high}"


def counted_figure(value: float, noun: str) -> str:
    shown = figure(round(value))
    return f"{shown} {noun if shown == '1' else noun + 's'}"


def cost_lines(description: PlanDescription) -> Iterator[str]:
    shared, alone = description["plan"], description["alone"]
    yield f"{'predicted cost':<22}{'this plan':>12}{'each alone':>14}"
    yield f"{'coding of rows':<22}{duration(shared['coding_ns']):>12}{duration(alone['coding_ns']):>14}"
    yield f"{'nodes and windows':<22}{duration(shared['tree_ns']):>12}{duration(alone['tree_ns']):>14}"
    ratio = times_cheaper(description["ratio"])
    yield f"{'all':<22}{duration(shared['total_ns']):>12}{duration(alone['total_ns']):>14}   {ratio}"


def summary_lines(description: PlanDescription, width: int) -> Iterator[str]:
    """Which queries are answered by which shipped nodes, folded as in the tree."""
    by_name = {query["name"]: query for query in description["queries"]}
    yield from summary_row("answered by", "queries", "alone", "fair share", width)
    for fold in shipped_folds(folds(description)):
        ids = {node["id"] for node in fold.nodes}
        queries = [by_name[name] for name in fold.queries if ids & {route["node"] for route in by_name[name]["routes"]}]
        alone, share = (sum(query[key] for query in queries) for key in ("alone_ns", "share_ns"))
        names = fold_names([query["name"] for query in queries])
        yield from summary_row(fold.label, names, duration(alone), duration(share), width)


def summary_row(nodes: str, queries: str, alone: str, share: str, width: int) -> Iterator[str]:
    room = width - 40
    first, *others = textwrap.wrap(queries, room, break_long_words=False, break_on_hyphens=False)
    yield f"{nodes:<14} {first:<{room}} {alone:>10} {share:>11}"
    yield from (f"{'':<14} {line}" for line in others)


def shipped_folds(siblings: Iterable[NodeFold]) -> Iterator[NodeFold]:
    for fold in siblings:
        if any(node["shipped"] for node in fold.nodes):
            yield fold
        yield from shipped_folds(fold.children)


def query_lines(query: QueryDescription, width: int) -> Iterator[str]:
    ratio = times_cheaper(query["alone_ns"] / query["share_ns"] if query["share_ns"] else 1.0)
    cost = f"{duration(query['alone_ns'])} alone, {duration(query['share_ns'])} as its fair share: {ratio}"
    yield query["name"]
    for label, value in [*path_pairs(query), ("cost", cost)]:
        yield from label_lines(label, value, "  ", width)
    yield "  rewritten"
    yield from (f"    {line}" for line in query["rewrite"].splitlines())


def path_pairs(query: QueryDescription) -> Iterator[tuple[str, str]]:
    if query["where"]:
        yield "where", query["where"]
    yield "answer", route_text(query)
    yield "shares", ", ".join(step_text(step["node"], step["other_queries"]) for step in query["path"])


def addition_lines(added: AdditionDescription, width: int) -> Iterator[str]:
    cost = f"{duration(added['query']['alone_ns'])} alone, {duration(added['added_ns'])} more for this plan"
    changes = [f"{', '.join(added['changed'])} wider"] if added["changed"] else []
    changes += [f"{', '.join(added['new'])} new"] if added["new"] else []
    unchanged = f"{count_noun(added['unchanged'], 'node')} as before"
    end = [("cost", cost), ("changes", "; ".join([*changes, unchanged]))]
    yield "the query to be added"
    for label, value in [("query", added["query"]["text"]), *path_pairs(added["query"]), *end]:
        yield from label_lines(label, value, "  ", width)


def route_text(query: QueryDescription) -> str:
    several = len(query["routes"]) > 1
    parts = []
    for route in query["routes"]:
        is_whole = route["rows"] >= route["of_rows"]
        rows = counted_figure(route["of_rows"], "row")
        which = f"all {rows}" if is_whole else f"the cells where it holds, {figure(round(route['rows']))} of {rows}"
        parts.append(f"{', '.join(route['partials']) + ' ' if several else ''}from {route['node']}: {which}")
    return "; ".join(parts)


def step_text(node: str, others: int) -> str:
    return f"{node} with {count_noun(others, 'other query', 'other queries') if others else 'no other'}"
