"""Each check, on made-up machines, and the command on this one."""

from __future__ import annotations

import json
import os
import stat
import zoneinfo
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.cli.commands import doctor
from headrace.cli.commands.doctor import Finding, Status
from headrace.cli.main import main
from headrace.spark.java import Run

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)\n'


def answer(output: str | None) -> Run:
    def run(command: Sequence[str]) -> str | None:
        return output

    return run


def make_program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ((3, 10), Status.PROBLEM),
        ((3, 11), Status.OK),
        ((3, 13), Status.OK),
        ((3, 14), Status.WARNING),
    ],
)
def test_python(version: tuple[int, int], status: Status) -> None:
    finding = doctor.check_python(version, "/opt/python")
    assert finding.status is status
    assert finding.detail == f"{version[0]}.{version[1]} at /opt/python"
    assert bool(finding.hint) == (status is not Status.OK)


@pytest.mark.parametrize(("output", "status"), [(JAVA_17, Status.OK), ('version "11.0.2"', Status.PROBLEM)])
def test_java_version(output: str, status: Status, tmp_path: Path) -> None:
    java = make_program(tmp_path / "java")
    finding = doctor.check_java({"PATH": str(tmp_path)}, answer(output), spark_installed=True)
    assert finding.status is status
    assert str(java) in finding.detail


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    make_program(tmp_path / "java")
    environment = {"PATH": str(tmp_path), "JAVA_HOME": "/opt/jdk"}
    assert doctor.check_java(environment, answer(JAVA_17), spark_installed=True).detail == "17 at /opt/jdk/bin/java"


@pytest.mark.parametrize(("spark_installed", "status"), [(True, Status.PROBLEM), (False, Status.WARNING)])
def test_missing_java_matters_only_to_spark(spark_installed: bool, status: Status, tmp_path: Path) -> None:
    finding = doctor.check_java({"PATH": str(tmp_path)}, answer(None), spark_installed=spark_installed)
    assert (finding.status, finding.detail) == (status, "not found")
    assert finding.hint == "The Spark part needs Java 17 or 21: install a JDK or set JAVA_HOME."


def test_java_that_does_not_run(tmp_path: Path) -> None:
    finding = doctor.check_java({"JAVA_HOME": str(tmp_path)}, answer(None), spark_installed=True)
    assert finding.status is Status.PROBLEM
    assert finding.detail == f"{tmp_path}/bin/java does not run"


@pytest.mark.parametrize(
    ("total_bytes", "status"),
    [(2 * 2**30, Status.WARNING), (4 * 2**30, Status.OK), (None, Status.WARNING)],
)
def test_memory(total_bytes: int | None, status: Status) -> None:
    assert doctor.check_memory(total_bytes).status is status


def test_memory_of_a_container(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    unlimited = doctor.total_memory_bytes(limit)
    assert unlimited is not None
    limit.write_text("1073741824\n")
    assert doctor.total_memory_bytes(limit) == 2**30
    limit.write_text("max\n")
    assert doctor.total_memory_bytes(limit) == unlimited


def test_places_of_the_compile_cache() -> None:
    package, home = Path("/site/headrace"), Path("/users/ann")
    beside = package / "kernel" / "__pycache__"
    assert doctor.compile_caches({}, package, home, "linux") == (beside, home / ".cache/numba")
    assert doctor.compile_caches({}, package, home, "darwin") == (beside, home / "Library/Caches/numba")
    environment = {"NUMBA_CACHE_DIR": "/var/loops", "XDG_CACHE_HOME": "/var/ann"}
    expected = (Path("/var/loops"), beside, Path("/var/ann/numba"))
    assert doctor.compile_caches(environment, package, home, "linux") == expected


def test_compile_cache_is_tried_by_writing(tmp_path: Path) -> None:
    # A file where a directory should be stops even the superuser, whom permissions do not.
    (tmp_path / "file").write_text("")
    blocked, free = tmp_path / "file" / "cache", tmp_path / "cache"
    assert doctor.check_compile_cache([free, blocked], chosen=False) == Finding("Compile cache", Status.OK, str(free))
    assert doctor.check_compile_cache([blocked, free], chosen=False).status is Status.OK
    assert doctor.check_compile_cache([blocked, free], chosen=True).status is Status.WARNING
    nowhere = doctor.check_compile_cache([blocked], chosen=False)
    assert nowhere.status is Status.WARNING
    assert "NUMBA_CACHE_DIR" in nowhere.hint
    assert list(free.iterdir()) == []


@pytest.mark.parametrize(
    ("output", "status_of_path", "status_of_choice"),
    [
        ("3.12 /env\n", Status.OK, Status.OK),
        ("3.12 /usr\n", Status.WARNING, Status.WARNING),
        ("3.9 /usr\n", Status.WARNING, Status.PROBLEM),
        (None, Status.WARNING, Status.PROBLEM),
    ],
)
def test_worker_python(output: str | None, status_of_path: Status, status_of_choice: Status, tmp_path: Path) -> None:
    python = make_program(tmp_path / "python3")
    for environment, status in [
        ({"PATH": str(tmp_path)}, status_of_path),
        ({"PATH": "", "PYSPARK_PYTHON": str(python)}, status_of_choice),
    ]:
        finding = doctor.check_worker_python(environment, answer(output), (3, 12), "/env/bin/python", "/env")
        assert finding.status is status
        assert ("PYSPARK_PYTHON=/env/bin/python" in finding.hint) == (status is not Status.OK)


def test_worker_python_that_is_missing(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "PYSPARK_PYTHON": "python3.12"}
    finding = doctor.check_worker_python(environment, answer(None), (3, 12), "/env/bin/python", "/env")
    assert (finding.status, finding.detail) == (Status.PROBLEM, "python3.12 not found")


def test_time_zones() -> None:
    def no_data(key: str) -> object:
        raise zoneinfo.ZoneInfoNotFoundError(key)

    assert doctor.check_time_zones(zoneinfo.ZoneInfo).status is Status.OK
    assert doctor.check_time_zones(no_data).status is Status.PROBLEM


def test_packages() -> None:
    findings = doctor.check_packages({"pyarrow": "26.0.1", "numba": "0.68.1"}.get)
    assert {finding.subject: finding.status for finding in findings} == {
        "pyspark": Status.WARNING,
        "numba": Status.OK,
        "pyarrow": Status.OK,
        "sqlglot": Status.PROBLEM,
    }


@pytest.mark.parametrize(("status", "exit_status"), [(Status.PROBLEM, 1), (Status.WARNING, 0), (Status.OK, 0)])
def test_only_a_problem_fails_the_command(
    status: Status, exit_status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "diagnose", lambda environment: (Finding("Java", status, "11", "Install another."),))
    assert main(["doctor"]) == exit_status
    assert capsys.readouterr().out.split() == [status, "Java", "11", "Install", "another."]
    assert main(["doctor", "--json"]) == exit_status
    assert json.loads(capsys.readouterr().out) == {
        "healthy": exit_status == 0,
        "findings": [{"subject": "Java", "status": status, "detail": "11", "hint": "Install another."}],
    }


def test_this_machine_is_diagnosed() -> None:
    subjects = [finding.subject for finding in doctor.diagnose(os.environ)]
    assert subjects[0] == "Python"
    assert {"Java", "Memory", "Compile cache", "Time zones", "pyspark", "numba", "pyarrow", "sqlglot"} <= set(subjects)
