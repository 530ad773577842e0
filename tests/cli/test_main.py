"""The command line: light to start, helpful when wrong, and the place where errors end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import rich_click as click

from headrace import __version__
from headrace.cli import main as service
from headrace.model.errors import HeadraceError

HEAVY = ("datasketches", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "pyspark", "sqlglot")


def replace_command(monkeypatch: pytest.MonkeyPatch, body: Callable[[], None]) -> None:
    """Let `headrace doctor` run `body`."""
    command = click.Command("doctor", callback=body)
    monkeypatch.setattr(service, "load_command", lambda name: command)


def fail_with(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from headrace.cli.main import main\n"
        f"status = main({arguments!r})\n"
        f"print('imported:', *[name for name in {HEAVY!r} if name in sys.modules])\n"
        "sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported:"


def test_importing_headrace_imports_no_dependency() -> None:
    program = "import sys, headrace; print(*[name for name in sys.modules if name in sys.argv])"
    arguments = [sys.executable, "-c", program, "click", "rich", *HEAVY]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_python_m_headrace_is_the_command() -> None:
    arguments = [sys.executable, "-m", "headrace", "--version"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout == f"headrace, version {__version__}\n"


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_every_command(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert service.main([option]) == 0
    shown = capsys.readouterr().out
    for name, entry in service.COMMANDS.items():
        assert name in shown
        assert entry.summary in shown


def test_help_has_every_command_under_one_task() -> None:
    grouped = [name for names in service.TASKS.values() for name in names]
    assert sorted(grouped) == sorted(service.COMMANDS)


def test_unknown_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert service.main(["docter"]) == 2
    shown = capsys.readouterr().err
    assert "No such command 'docter'" in shown
    assert "doctor" in shown


def test_absent_command_is_named_and_leaves_help_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = service.CommandEntry("absent:absent", "Not written.")
    monkeypatch.setattr(service, "COMMANDS", {**service.COMMANDS, "doctor": absent})
    assert service.main(["doctor"]) == 1
    assert "'doctor' is not part of Headrace" in capsys.readouterr().err
    assert service.main(["--help"]) == 0


def test_mistake_is_shown_in_full_without_a_stack_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = HeadraceError("bad-thing", "the thing is bad", detail="it has two lines", hint="use a good one")
    replace_command(monkeypatch, fail_with(error))
    assert service.main(["doctor"]) == 1
    assert capsys.readouterr().err == f"{error}\n"


def test_wrong_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert service.main(["doctor", "--jsn"]) == 2
    assert "--json" in capsys.readouterr().err


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    replace_command(monkeypatch, fail_with(ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql")))
    assert service.main(["doctor"]) == 1
    assert "pip install 'headrace[spark]'" in capsys.readouterr().err


@pytest.mark.parametrize(("debug", "traces"), [("", 0), ("1", 1)])
def test_unexpected_error_asks_for_a_report(
    debug: str, traces: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADRACE_DEBUG", debug)
    replace_command(monkeypatch, fail_with(ZeroDivisionError("division by zero")))
    assert service.main(["doctor"]) == 70
    shown = capsys.readouterr().err
    assert shown.count("Traceback") == traces
    assert "unexpected ZeroDivisionError (division by zero): please report it" in shown.splitlines()[-1]


def test_the_text_of_an_unexpected_error_can_not_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replace_command(monkeypatch, fail_with(ZeroDivisionError("a \x1b[31mcolumn\nand more")))
    assert service.main(["doctor"]) == 70
    shown = capsys.readouterr().err
    assert "(a \N{REPLACEMENT CHARACTER}[31mcolumn\nand more)" in shown
    assert "\x1b" not in shown


def test_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    replace_command(monkeypatch, fail_with(KeyboardInterrupt()))
    assert service.main(["doctor"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_closed_pipe_is_quiet(unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "--help"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        check=False,
    )
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 1
