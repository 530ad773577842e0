"""Turn the declaration of a benchmark into a command: options, parts to run, tables, figures and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import rich_click as click

from headrace.cli.files import write_json_document
from headrace.cli.output_file import writing

PICTURES = (".svg", ".png", ".pdf")


@dataclass(frozen=True)
class Benchmark:
    """Declare a command.

    Each part is a module with two functions: `measure`, which takes the options that its parameters name and returns
    the figures as a JSON document, and `show`, which prints them. The documents of all parts make one file.
    """

    name: str
    help: str
    options: tuple[click.Option, ...]
    parts: Mapping[str, str]
    figure: str = ""
    """What `--plot` draws, of the first part; empty if there is no figure."""

    @property
    def command(self) -> click.Command:
        def run(plot: Path | None = None, json_file: Path | None = None, **values: Any) -> None:
            run_benchmark(self, values, plot, json_file)

        return click.RichCommand(name=self.name, callback=run, help=self.help, params=list(self.all_options()))

    def all_options(self) -> Iterator[click.Option]:
        if len(self.parts) > 1:
            text = "Which part; may be given several times. Only spark needs Java."
            yield option("--part", tuple(self.parts), text, click.Choice(list(self.parts)), name="parts")
        yield from self.options
        if self.figure:
            yield picture_option("--plot", f"Draw {self.figure} into this file (SVG, PNG or PDF).")
        yield option("--json", None, "Write the figures to this JSON file.", click.Path(path_type=Path), "json_file")


def run_benchmark(benchmark: Benchmark, values: dict[str, Any], plot: Path | None, json_file: Path | None) -> None:
    chosen = values.pop("parts", benchmark.parts)
    document: dict[str, Any] = {}
    for part, target in benchmark.parts.items():
        if part in chosen:
            # Numba and PySpark are slow to import, so a module is imported when its part runs
            module = import_module(target)
            figures = module.measure(**{name: values[name] for name in signature(module.measure).parameters})
            module.show(figures)
            document |= figures
    if json_file is not None:
        write_json_document(document, json_file)
        click.echo(f"written to {json_file}", err=True)
    if plot is not None and next(iter(benchmark.parts)) in chosen:
        draw_figure(document, plot)


def draw_figure(document: Mapping[str, Any], path: Path) -> None:
    # matplotlib is an extra, and slow to import
    from benchmarks.plots import draw

    with writing(path):
        draw(document, path)
    click.echo(f"drawn into {path}", err=True)


# Options


def option(
    flag: str, default: object, text: str, kind: click.ParamType[Any] | None = None, name: str | None = None
) -> click.Option:
    """Declare an option. One whose default is a tuple may be given several times."""
    return click.RichOption(
        [flag, name] if name else [flag],
        type=kind or (click.FLOAT if isinstance(default, float) else click.IntRange(1)),
        default=default,
        multiple=isinstance(default, tuple),
        show_default=default is not None,
        help=text,
    )


def groups_option(default: str, text: str) -> click.Option:
    """Declare numbers of groups, separated by commas."""
    return click.RichOption(["--groups"], default=default, show_default=True, callback=read_groups, help=text)


def read_groups(_: click.Context, __: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        groups = tuple(dict.fromkeys(int(number) for number in text.split(",")))
    except ValueError:
        groups = (0,)
    if min(groups) < 1:
        raise click.BadParameter(f"'{text}' is not a list of numbers above 0, such as 100,1000,10000.")
    return groups


def picture_option(flag: str, text: str, *, is_required: bool = False) -> click.Option:
    kind = click.Path(path_type=Path)
    return click.RichOption([flag], type=kind, callback=check_picture, required=is_required, help=text)


def check_picture(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Refuse other files before anything is measured."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise click.BadParameter(f"'{path}' does not end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}.")
    return path
