"""Every option of every command is in the documentation."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import rich_click as click

from benchmarks.commands import bench
from headrace.cli.main import COMMANDS, cli, load_command

ROOT = Path(__file__).parents[2]


def documentation() -> str:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    return "\n".join(page.read_text() for page in pages if page.exists())


def options_of(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    """(full command, option) for `command` and all below it, by the longest spelling of each option."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            yield path, max(parameter.opts, key=len)
    if isinstance(command, click.Group) and command is not cli:
        for name, inner in command.commands.items():
            yield from options_of(inner, f"{path} {name}")


def all_options() -> list[tuple[str, str]]:
    written = [
        name
        for name, entry in COMMANDS.items()
        if importlib.util.find_spec(f"headrace.cli.commands.{entry.target}".partition(":")[0])
    ]
    found = list(options_of(cli, "headrace"))
    for name in written:
        found += options_of(load_command(name), f"headrace {name}")
    return [*found, *options_of(bench, "python -m benchmarks")]


@pytest.mark.parametrize(("command", "option"), all_options())
def test_option_is_documented(command: str, option: str) -> None:
    mentioned = re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", documentation())
    assert mentioned, f"'{command} {option}' is not documented: describe {option} in docs/command-line.md"


def test_every_command_is_documented() -> None:
    text = documentation()
    missing = [name for name in COMMANDS if f"headrace {name}" not in text]
    assert not missing, f"describe in docs/command-line.md: {', '.join(f'headrace {name}' for name in missing)}"
