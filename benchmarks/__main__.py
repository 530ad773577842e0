"""`python -m benchmarks`: measure Headrace against the papers and other engines."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.commands import bench
from headrace.cli.main import run_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a benchmark and return its exit status."""
    return run_command(bench, "python -m benchmarks", arguments)


if __name__ == "__main__":
    sys.exit(main())
