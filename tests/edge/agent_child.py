"""A child process that runs the agent of `agents` over what is there, and may die at a named point.

python -m tests.edge.agent_child ROOT [WHEN OPERATION PART NTH], as in tests/engine/dying.py
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from headrace.edge.agent_progress import Mode
from headrace.storage import disk
from tests.edge.agents import QUICK, make_agent
from tests.engine.dying import Point

PACE = replace(QUICK, every_s=1e-9)
"""Every piece is a frame."""


def main(root: str, *where: str) -> None:
    with ExitStack() as stack:
        if where:
            when, operation, part, nth = where
            point = Point(when, operation, part, int(nth))
            whole = disk.write_whole

            def half(path: Path, data: bytes, **how: bool) -> None:
                if operation == "half" and part in str(path):
                    point.left -= 1
                    if point.left == 0:
                        path.write_bytes(data[: len(data) // 2])
                        os.kill(os.getpid(), signal.SIGKILL)
                whole(path, data, **how)

            stack.enter_context(patch.object(disk, "write_whole", half))
            stack.enter_context(patch.object(Path, "replace", point.around("rename", Path.replace)))
            stack.enter_context(patch.object(Path, "unlink", point.around("delete", Path.unlink)))
        make_agent(Path(root), Mode.ONCE, PACE).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
