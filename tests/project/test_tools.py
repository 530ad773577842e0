"""`scripts/check-tools` with made-up tools, and what the project says about supported versions."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from headrace.cli.commands.doctor import SUPPORTED_JAVA, SUPPORTED_PYTHON

ROOT = Path(__file__).parents[2]
CHECK_TOOLS = ROOT / "scripts" / "check-tools"

PYTHON_ADVICE = "Install one, or name it: make PYTHON=/path/to/python3."
JAVA_ADVICE = "Install a JDK or set JAVA_HOME."


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A directory for PATH that holds what the script itself needs."""
    directory = tmp_path / "tools"
    directory.mkdir()
    for name in ("sh", "sed", "head"):
        found = subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True, text=True, check=True)
        (directory / name).symlink_to(found.stdout.strip())
    return directory


def add_tool(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def add_java(path: Path, version: str) -> Path:
    return add_tool(path, f"echo 'openjdk version \"{version}\" 2025-04-15' >&2; echo 'OpenJDK Server VM' >&2")


def add_python(path: Path, version: str, *, with_venv: bool = True) -> Path:
    return add_tool(path, f'case "$2" in *ensurepip*) exit {0 if with_venv else 1} ;; *) echo {version} ;; esac')


def check(tools: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """The script's status and all it prints."""
    done = subprocess.run(
        [CHECK_TOOLS, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PATH": str(tools), **environment},
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("major", SUPPORTED_JAVA)
def test_supported_java_passes_in_silence(tools: Path, major: int) -> None:
    add_java(tools / "java", f"{major}.0.2")
    assert check(tools, "java") == (0, "")


@pytest.mark.parametrize(("version", "major"), [("11.0.2", 11), ("1.8.0_392", 8), ("25", 25)])
def test_other_java_is_named(tools: Path, version: str, major: int) -> None:
    java = add_java(tools / "java", version)
    message = f"Headrace needs Java 17 or 21; found Java {major} at {java}. {JAVA_ADVICE}\n"
    assert check(tools, "java") == (1, message)


def test_java_home_comes_before_path(tools: Path, tmp_path: Path) -> None:
    add_java(tools / "java", "17.0.2")
    java = add_java(tmp_path / "jdk" / "bin" / "java", "11.0.2")
    message = f"Headrace needs Java 17 or 21; found Java 11 at {java}. {JAVA_ADVICE}\n"
    assert check(tools, "java", JAVA_HOME=str(tmp_path / "jdk")) == (1, message)


def test_options_for_java_do_not_confuse(tools: Path) -> None:
    add_tool(tools / "java", "echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2; echo 'openjdk version \"21\"' >&2")
    assert check(tools, "java") == (0, "")


def test_missing_java(tools: Path, tmp_path: Path) -> None:
    assert check(tools, "java") == (1, f"Headrace needs Java 17 or 21; found none. {JAVA_ADVICE}\n")
    message = f"Headrace needs Java 17 or 21; JAVA_HOME is {tmp_path}, which has no bin/java. {JAVA_ADVICE}\n"
    assert check(tools, "java", JAVA_HOME=str(tmp_path)) == (1, message)


def test_java_that_does_not_run(tools: Path) -> None:
    java = add_tool(tools / "java", "echo 'Unable to locate a Java Runtime.' >&2; exit 1")
    assert check(tools, "java") == (1, f"Headrace needs Java 17 or 21; {java} does not run. {JAVA_ADVICE}\n")


@pytest.mark.parametrize(("major", "minor"), SUPPORTED_PYTHON)
def test_supported_python_passes_in_silence(tools: Path, major: int, minor: int) -> None:
    add_python(tools / "python3", f"{major}.{minor}")
    assert check(tools, "python", "python3") == (0, "")


@pytest.mark.parametrize("version", ["2.7", "3.10", "3.14", "3.1"])
def test_other_python_is_named(tools: Path, version: str) -> None:
    python = add_python(tools / "python3", version)
    message = f"Headrace needs Python 3.11 to 3.13; found Python {version} at {python}. {PYTHON_ADVICE}\n"
    assert check(tools, "python", "python3") == (1, message)


def test_python_by_path_with_a_space(tools: Path, tmp_path: Path) -> None:
    python = add_python(tmp_path / "my tools" / "python", "3.12")
    assert check(tools, "python", str(python)) == (0, "")


def test_missing_python(tools: Path) -> None:
    message = f"Headrace needs Python 3.11 to 3.13; found no python3. {PYTHON_ADVICE}\n"
    assert check(tools, "python", "python3") == (1, message)


def test_python_that_does_not_run(tools: Path) -> None:
    python = add_tool(tools / "python3", "echo 'command not found' >&2; exit 127")
    message = f"Headrace needs Python 3.11 to 3.13; {python} does not run. {PYTHON_ADVICE}\n"
    assert check(tools, "python", "python3") == (1, message)


def test_python_without_venv(tools: Path) -> None:
    python = add_python(tools / "python3", "3.11", with_venv=False)
    status, message = check(tools, "python", "python3")
    assert status == 1
    assert message.startswith(f"Headrace needs Python's venv module, which {python} lacks.")


@pytest.mark.parametrize(
    ("system", "machine", "status"),
    [("Linux", "x86_64", 0), ("Darwin", "arm64", 0), ("Darwin", "x86_64", 1), ("FreeBSD", "amd64", 1)],
)
def test_platform(tools: Path, system: str, machine: str, status: int) -> None:
    add_tool(tools / "uname", f'[ "$1" = -s ] && echo {system} || echo {machine}')
    message = f"Headrace needs Linux (x86_64, aarch64) or macOS (arm64); this is {system} {machine}.\n"
    assert check(tools, "platform") == (status, message if status else "")


def test_make_adds_only_its_own_line(tmp_path: Path) -> None:
    """The user sees the message and make's error line, nothing else, before anything is installed."""
    java = add_java(tmp_path / "bin" / "java", "11.0.2")
    done = subprocess.run(
        ["make", "--no-print-directory", "-f", ROOT / "Makefile", "-C", ROOT, "demo"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "JAVA_HOME": str(tmp_path)},
        check=False,
    )
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0] == f"Headrace needs Java 17 or 21; found Java 11 at {java}. {JAVA_ADVICE}"
    assert len(lines) == 2
    assert "Error 1" in lines[1]


def test_classifiers_name_the_supported_pythons() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: "
    named = [line.removeprefix(prefix) for line in project["classifiers"] if line.startswith(prefix)]
    assert named == [f"{major}.{minor}" for major, minor in SUPPORTED_PYTHON]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-build.lock"])
def test_locks_pin_by_hash_and_name_no_registry(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    assert "--index-url" not in text
    entries = text.replace("\\\n", " ").splitlines()
    assert all("--hash=sha256:" in entry for entry in entries if not entry.lstrip().startswith("#"))
