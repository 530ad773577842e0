"""The tables of an edge in words: which there are, who feeds them, and how often groups collided in them."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.edge.tables.level1 import LevelOne
from headrace.edge.tables.table_set import TableSet
from headrace.edge.tables.tables import TableCounts
from headrace.planner.explain.labels import count_noun, percent
from headrace.planner.phantoms.configuration import Configuration


def explain_level(level: LevelOne) -> str:
    return "\n".join(lines_of(level))


def lines_of(level: LevelOne) -> Iterator[str]:
    if level.folded:
        yield f"by the kernel: {count_noun(len(level.folded), 'node')}"
    for table_set in level.table_sets:
        yield f"tables for {count_noun(len(table_set.nodes), 'node')}, {count_noun(table_set.nbytes, 'byte')}"
        yield from tree_of(table_set)


def tree_of(table_set: TableSet) -> Iterator[str]:
    if table_set.live is None:
        yield "  no rows yet"
        return
    yield from below(table_set.live.configuration, table_set.live.tables.counts, None, 1)


def below(
    configuration: Configuration, counts: tuple[TableCounts, ...], parent: int | None, depth: int
) -> Iterator[str]:
    """Each table under the one that feeds it."""
    for place in configuration.children(parent):
        table, seen = configuration.tables[place], counts[place]
        kind = "query" if table.is_query else "phantom"
        size = count_noun(table.entries, "entry", "entries")
        figures = f"{size}, {count_noun(seen.probes, 'probe')}, {percent(seen.collision_rate)} collisions"
        yield f"{'  ' * depth}{kind} {', '.join(sorted(table.attributes))}: {figures}"
        yield from below(configuration, counts, place, depth + 1)
