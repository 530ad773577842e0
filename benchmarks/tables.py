"""Print the figures of a benchmark: scalars, tables, and findings beside those of a paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

import rich_click as click

Document = Mapping[str, Any]
"""What is written as JSON."""
Row = Mapping[str, Any]
Cells = tuple[str, ...]
Value = str | tuple[str, ...] | Callable[[Row], Any]
"""The key of a value in a row, keys one below the other, or a function of the row."""


def value_of(row: Row, value: Value) -> Any:
    if callable(value):
        return value(row)
    return reduce(getitem, (value,) if isinstance(value, str) else value, row)


class Column(NamedTuple):
    """Declare a column: its title, its values and their format."""

    title: str
    value: Value
    form: str = ""

    def cell(self, row: Row) -> str:
        value = value_of(row, self.value)
        return "" if value is None else format(value, self.form)


class Across(NamedTuple):
    """Declare columns that are repeated for each label, such as each number of groups."""

    label: Callable[[Row], str]
    columns: Sequence[Column]


@dataclass(frozen=True)
class Table:
    """Declare a table over a list in the document."""

    section: str
    title: str
    columns: Sequence[Column]
    across: Across | None = None

    def show(self, document: Document) -> None:
        show_table(self.title, document[self.section], self.columns, self.across)


def show_table(title: str, rows: Iterable[Row], columns: Sequence[Column], across: Across | None = None) -> None:
    """Print a row for each, or for each distinct combination of `columns` if others are repeated across."""
    cells = across.columns if across else ()
    lines: dict[object, tuple[Cells, dict[str, Cells]]] = {}
    for place, row in enumerate(rows):
        first = tuple(column.cell(row) for column in columns)
        line = lines.setdefault(first if across else place, (first, {}))
        if across:
            line[1][across.label(row)] = tuple(column.cell(row) for column in cells)
    labels = list(dict.fromkeys(label for _, found in lines.values() for label in found))
    titles = [column.title for column in columns]
    heads = [titles + [label for label in labels for _ in cells]]
    if len(cells) > 1:
        heads = [[""] * len(titles) + [label if not place else "" for label in labels for place in range(len(cells))]]
        heads.append(titles + [column.title for _ in labels for column in cells])
    blank = ("",) * len(cells)
    body = [
        [*first, *(cell for label in labels for cell in found.get(label, blank))] for first, found in lines.values()
    ]
    show_lines(title, [*heads, *body])


def show_lines(title: str, lines: Sequence[Sequence[str]]) -> None:
    """Print cells below each other: the first column to the left, the others to the right."""
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    click.echo(title)
    for first, *others in lines:
        figures = " ".join(f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        click.echo(f"  {first:<{widths[0]}} {figures}".rstrip())
    click.echo()


def show_figures(document: Document, indent: str = "") -> None:
    """Print one figure per line, those of a group below its name. Lists of rows are left to tables."""
    for name, value in document.items():
        label = f"{indent}{name:<{30 - len(indent)}}"
        match value:
            case Mapping():
                click.echo(label.rstrip())
                show_figures(value, indent + "  ")
            case [Mapping(), *_]:
                continue
            case bool():
                click.echo(f"{label} {value!s:>14}")
            case int() | float():
                click.echo(f"{label} {value:>14,.0f}" if float(value).is_integer() else f"{label} {value:>14,.3f}")
            case _:
                click.echo(f"{label} {value!s:>14}")


# Beside a paper


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of a paper, whether it holds in this run, by which figures, and why not where it does not."""

    paper: str
    holds: bool
    here: str
    why: str


def show_findings(findings: Iterable[Row]) -> None:
    click.echo()
    for finding in findings:
        click.echo(f"{'as in the paper' if finding['holds'] else 'UNLIKE the paper'}: {finding['paper']}")
        click.echo(f"  here: {finding['here']}")
        if not finding["holds"]:
            click.echo(f"  why: {finding['why']}")
