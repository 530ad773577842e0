"""What the pages show is what happens: their code is run, and what they point to exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.model.schema import Catalog, UserFunction
from headrace.sql import parse_script

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def write_flows(folder: Path) -> None:
    """Write the file that a visitor of the README has: flows of three minutes, one a second."""
    lines = ["at,src,port,bytes"]
    for second in range(180):
        time = f"2026-01-01 09:{second // 60:02}:{second % 60:02}"
        lines.append(f"{time},10.0.0.{second**2 % 7 + 1},{(53, 443, 22)[second % 3]},{second * 919 % 1500 + 40}")
    (folder / "flows.csv").write_text("".join(f"{line}\n" for line in lines))


def commands_and_output(block: str) -> tuple[str, str]:
    """A console block: lines after '$ ' are commands, with those after '> ' and here-documents; the rest is what they
    print.
    """
    commands, output, until = [], [], None
    for line in block.splitlines():
        if until is not None:
            commands.append(line)
            until = None if line == until else until
        elif line.startswith("$ "):
            commands.append(line[2:])
            here = re.search(r"<<'(\w+)'", line)
            until = here[1] if here else None
        elif line.startswith("> "):
            commands.append(line[2:])
        else:
            output.append(line)
    return "\n".join(commands), "\n".join(output)


def test_the_first_screen_prints_what_it_shows(tmp_path: Path) -> None:
    """The command, and the Python program with its output in the block behind it."""
    page = ROOT / "README.md"
    write_flows(tmp_path)
    (block,) = blocks(page, "console")
    (program,), (output,) = blocks(page, "python"), blocks(page, "text")
    assert len(commands_and_output(block)[0].splitlines() + program.splitlines()) <= 20
    check_console(block, tmp_path)
    assert printed(f"python - <<'END'\n{program}END", tmp_path) == output


MOST_READ = ["query-language", "command-line", "operations", "concepts", "python", "architecture", "performance"]


@pytest.mark.parametrize("page", [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in MOST_READ)])
def test_the_most_read_pages_are_easy_to_read(page: Path) -> None:
    """Short lines, and no words that a native reader stumbles over."""
    lines = page.read_text().splitlines()
    assert [line for line in lines if len(line) >= 100] == []
    stumbles = re.findall(r"\b(?:unless told|tells?|told|anew|mend|reckons?|so many)\b", "\n".join(lines))
    assert stumbles == []


def test_the_page_on_explain_prints_what_it_shows(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    page = ROOT / "docs" / "explain.md"
    for block in blocks(page, "console"):
        if request.config.getoption("--update-golden"):
            update_console(page, block, tmp_path)
        else:
            check_console(block, tmp_path)


def check_console(block: str, folder: Path) -> None:
    commands, expected = commands_and_output(block)
    shown = [line.rstrip() for line in printed(commands, folder).splitlines() if line.strip()]
    assert shown == [line.rstrip() for line in expected.splitlines() if line.strip()]


def update_console(page: Path, block: str, folder: Path) -> None:
    commands, expected = commands_and_output(block)
    changed = block.removesuffix(f"{expected}\n") + printed(commands, folder).rstrip("\n") + "\n"
    page.write_text(page.read_text().replace(block, changed))


def printed(commands: str, folder: Path) -> str:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    run = subprocess.run(
        ["bash", "-ec", commands], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_queries_on_the_pages_are_accepted(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_flows(tmp_path)
    monkeypatch.chdir(tmp_path)
    functions: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), functions)  # noqa: S102 - the page's own example
    catalog = Catalog(functions=tuple(value for value in functions.values() if isinstance(value, UserFunction)))
    for block in blocks(page, "sql"):
        script = parse_script(block, catalog)
        assert script.queries or script.catalog.streams


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("name", ["architecture.md", "performance.md"])
def test_modules_and_functions_on_a_page_exist(name: str) -> None:
    """`package/module.py`, and `package/module.py:name` for a function or class of it."""
    page = (ROOT / "docs" / name).read_text()
    found = re.findall(r"`((?!tests/)[a-z0-9_/]+\.py)(?::(\w+))?`", page)
    assert found
    for module, attribute in found:
        source = (ROOT / "src" / "headrace" / module).read_text()
        assert not attribute or re.search(rf"^(?:def|class) {attribute}\b", source, re.MULTILINE), (module, attribute)


def test_every_rule_of_the_semantics_names_a_test() -> None:
    rules = re.split(r"^\d+\. ", (ROOT / "docs" / "semantics.md").read_text(), flags=re.MULTILINE)[1:]
    tests = {path.name for path in (ROOT / "tests").glob("**/test_*.py")}
    for rule in rules:
        named = re.findall(r"`(test_\w+\.py)`", rule)
        assert named, f"no test is named by: {rule[:60]}"
        assert set(named) <= tests, f"no such test: {named}"
