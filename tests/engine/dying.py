"""A child process that runs the job of `files` and dies at a named point, as if its power were cut.

python -m tests.engine.dying ROOT POINT NTH: POINT is `before` or `after`, a file operation, and a part of a path.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from headrace.engine.sinks import delivery
from headrace.storage import disk
from tests.engine.files import run_all


class Point:
    """Counts the times that it is reached, and ends the process the nth time."""

    def __init__(self, when: str, operation: str, part: str, nth: int) -> None:
        self.when, self.operation, self.part, self.left = when, operation, part, nth

    def reached(self, when: str, operation: str, path: Any) -> None:
        if (when, operation) == (self.when, self.operation) and self.part in str(path):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, operation: str, function: Any) -> Any:
        def wrapped(path: Any, *rest: Any) -> Any:
            self.reached("before", operation, path)
            found = function(path, *rest)
            self.reached("after", operation, path)
            return found

        return wrapped


def main(root: str, when: str, operation: str, part: str, nth: str) -> None:
    point = Point(when, operation, part, int(nth))
    whole = disk.write_whole

    def half(path: Path, data: bytes, **how: bool) -> None:
        """A file of which only a half was written when the power went."""
        if operation == "half" and part in str(path):
            point.left -= 1
            if point.left == 0:
                path.write_bytes(data[: len(data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
        whole(path, data, **how)

    replaced = point.around("rename", Path.replace)
    linked = os.link

    def link(source: Any, target: Any) -> None:
        point.reached("before", "create", target)
        linked(source, target)
        point.reached("after", "create", target)

    with (
        patch.object(disk, "write_whole", half),
        patch.object(delivery, "write_whole", half),
        patch.object(Path, "replace", replaced),
        patch.object(os, "link", link),
        patch.object(disk, "sync", point.around("shown", disk.sync)),
        patch("os.fsync"),
    ):
        run_all(Path(root))


if __name__ == "__main__":
    main(*sys.argv[1:])
