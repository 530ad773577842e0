"""What a test needs of the machine beside Python: without it the test is skipped, or fails where it is required.

HEADRACE_REQUIRE=mount,netns pytest ...: a machine that must be able to do these.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

VARIABLE = "HEADRACE_REQUIRE"


def require(name: str, reason: str | None) -> None:
    """Skip the test for this reason, or fail it if the environment requires what is missing. None: it is there."""
    if reason is None:
        return
    if name in os.environ.get(VARIABLE, "").replace(" ", "").split(","):
        pytest.fail(f"{VARIABLE} names {name}, and it is missing: {reason}")
    print(f"skipped, {name} is missing: {reason}")
    pytest.skip(f"{name} is missing: {reason}")


@cache
def why_no_mount() -> str | None:
    """Return why a small file system can't be mounted here, or None if it can."""
    with TemporaryDirectory() as folder:
        try:
            mount_tmpfs(Path(folder), 1 << 20)
        except (OSError, subprocess.SubprocessError) as problem:
            return f"a tmpfs can't be mounted: {getattr(problem, 'stderr', None) or problem}".strip()
        unmount(Path(folder))
    return None


def mount_tmpfs(folder: Path, size_bytes: int) -> None:
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)


def unmount(folder: Path) -> None:
    subprocess.run(["umount", str(folder)], check=True, capture_output=True, text=True, timeout=30)
