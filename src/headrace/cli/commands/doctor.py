"""`headrace doctor`: what Headrace needs, what this machine has, and what to do about the difference.

A check is a function of what it is given: the environment, a way to run a program, a version. `diagnose` gives it
the real ones.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import rich_click as click

from headrace.spark.java import NEEDED, SUPPORTED, Run, find_java, run_program

SUPPORTED_PYTHON = ((3, 11), (3, 12), (3, 13))
SUPPORTED_JAVA = SUPPORTED
ENOUGH_MEMORY_BYTES = 4 * 2**30
PACKAGES = ("numba", "pyarrow", "sqlglot")


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    subject: str
    status: Status
    detail: str
    hint: str = ""


def check_python(version: tuple[int, int], executable: str) -> Finding:
    detail = f"{_format_version(version)} at {executable}"
    span = f"{_format_version(SUPPORTED_PYTHON[0])} to {_format_version(SUPPORTED_PYTHON[-1])}"
    if version < SUPPORTED_PYTHON[0]:
        return Finding("Python", Status.PROBLEM, detail, f"Use Python {span}.")
    if version > SUPPORTED_PYTHON[-1]:
        return Finding("Python", Status.WARNING, detail, f"Headrace is tested with Python {span}.")
    return Finding("Python", Status.OK, detail)


def check_java(environment: Mapping[str, str], run: Run, *, spark_installed: bool) -> Finding:
    java = find_java(environment, run)
    if java.major in SUPPORTED_JAVA:
        return Finding("Java", Status.OK, str(java))
    return Finding("Java", Status.PROBLEM if spark_installed else Status.WARNING, str(java), NEEDED)


def check_memory(total_bytes: int | None) -> Finding:
    if total_bytes is None:
        return Finding("Memory", Status.WARNING, "unknown", "Headrace needs 4 GiB beside what else runs here.")
    detail = f"{total_bytes / 2**30:.1f} GiB"
    if total_bytes < ENOUGH_MEMORY_BYTES:
        return Finding("Memory", Status.WARNING, detail, "Spark with its Python workers needs about 4 GiB.")
    return Finding("Memory", Status.OK, detail)


def total_memory_bytes(cgroup_limit: Path = Path("/sys/fs/cgroup/memory.max")) -> int | None:
    """Return the memory of this machine, or of this container if that is less."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None
    try:
        return min(total, int(cgroup_limit.read_text()))
    except (OSError, ValueError):
        return total


def check_compile_cache(directories: Iterable[Path], *, chosen: bool) -> Finding:
    """Find numba's cache, the first writable directory; `chosen` says that the first was chosen by the user."""
    first, *others = directories
    if is_writable(first):
        return Finding("Compile cache", Status.OK, str(first))
    hint = "Set NUMBA_CACHE_DIR to a writable directory."
    for directory in others:
        if is_writable(directory):
            detail = f"{directory}, as {first} is not writable"
            return Finding("Compile cache", Status.WARNING if chosen else Status.OK, detail, hint if chosen else "")
    return Finding("Compile cache", Status.WARNING, "none, so that every process compiles its loops again", hint)


def compile_caches(environment: Mapping[str, str], package: Path, home: Path, platform: str) -> tuple[Path, ...]:
    """Return where numba puts compiled loops, in its order: its setting, beside the source, the user's cache."""
    chosen = environment.get("NUMBA_CACHE_DIR")
    if platform == "darwin":
        of_user = home / "Library" / "Caches"
    else:
        of_user = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    return (*([Path(chosen)] if chosen else []), package / "kernel" / "__pycache__", of_user / "numba")


def is_writable(directory: Path) -> bool:
    """Try to write: permission bits do not show read-only mounts and full disks."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(b"headrace")
    except OSError:
        return False
    return True


def check_worker_python(
    environment: Mapping[str, str], run: Run, version: tuple[int, int], executable: str, prefix: str
) -> Finding:
    """Spark's workers run PYSPARK_PYTHON, else the `python3` of PATH; both must be this Python."""
    subject = "Workers' Python"
    chosen = environment.get("PYSPARK_PYTHON")
    severity = Status.PROBLEM if chosen else Status.WARNING
    hint = f"Set PYSPARK_PYTHON={executable} before a Spark session of your own starts."
    python = shutil.which(chosen or "python3", path=environment.get("PATH"))
    if python is None:
        return Finding(subject, severity, f"{chosen or 'python3'} not found", hint)
    answer = run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.prefix)"])
    if answer is None:
        return Finding(subject, severity, f"{python} does not run", hint)
    worker_version, _, worker_prefix = answer.strip().partition(" ")
    detail = f"{worker_version} at {python}"
    if worker_version != _format_version(version):
        return Finding(subject, severity, f"{detail}, but this is Python {_format_version(version)}", hint)
    if worker_prefix != prefix:
        return Finding(subject, Status.WARNING, f"{detail}, in another environment than this one", hint)
    return Finding(subject, Status.OK, detail)


def check_time_zones(load: Callable[[str], object]) -> Finding:
    try:
        load("America/New_York")
    except zoneinfo.ZoneInfoNotFoundError:
        return Finding("Time zones", Status.PROBLEM, "no time zone data", "Install the package tzdata.")
    return Finding("Time zones", Status.OK, "found")


def check_packages(version_of: Callable[[str], str | None]) -> tuple[Finding, ...]:
    spark = version_of("pyspark")
    missing = Finding("pyspark", Status.WARNING, "not installed", "For Spark: pip install 'headrace[spark]'.")
    return (
        Finding("pyspark", Status.OK, spark) if spark else missing,
        *(_check_package(name, version_of(name)) for name in PACKAGES),
    )


def _check_package(name: str, version: str | None) -> Finding:
    if version is None:
        return Finding(name, Status.PROBLEM, "not installed", "Install Headrace again.")
    return Finding(name, Status.OK, version)


def diagnose(environment: Mapping[str, str]) -> tuple[Finding, ...]:
    """Run all checks, on the machine and the Python this runs in."""
    version = sys.version_info[:2]
    spark_installed = installed_version("pyspark") is not None
    caches = compile_caches(environment, Path(__file__).parents[1], Path.home(), sys.platform)
    findings = [
        check_python(version, sys.executable),
        check_java(environment, run_program, spark_installed=spark_installed),
        check_memory(total_memory_bytes()),
        check_compile_cache(caches, chosen="NUMBA_CACHE_DIR" in environment),
        check_time_zones(zoneinfo.ZoneInfo),
        *check_packages(installed_version),
    ]
    if spark_installed:
        findings.insert(2, check_worker_python(environment, run_program, version, sys.executable, sys.prefix))
    return tuple(findings)


def installed_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _format_version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def is_healthy(findings: Iterable[Finding]) -> bool:
    return all(finding.status is not Status.PROBLEM for finding in findings)


def as_json(findings: Sequence[Finding]) -> str:
    return json.dumps({"healthy": is_healthy(findings), "findings": list(map(asdict, findings))}, indent=2)


def as_lines(findings: Sequence[Finding]) -> Iterable[str]:
    colours = {Status.OK: "green", Status.WARNING: "yellow", Status.PROBLEM: "red"}
    for finding in findings:
        status = click.style(f"{finding.status:8}", fg=colours[finding.status])
        yield f"{status} {finding.subject:16} {finding.detail}"
        if finding.hint:
            yield f"{'':25} {finding.hint}"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "json_wanted", is_flag=True, help="Print the findings as JSON.")
@click.pass_context
def doctor(context: click.Context, json_wanted: bool) -> None:
    """Check this machine for what Headrace needs.

    The exit status is 1 when there is a problem; warnings do not count.
    """
    findings = diagnose(os.environ)
    click.echo(as_json(findings) if json_wanted else "\n".join(as_lines(findings)))
    context.exit(0 if is_healthy(findings) else 1)
