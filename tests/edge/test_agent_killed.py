"""An agent that is killed, at named points and at any moment: no row of its files is lost, and none goes up twice."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from headrace.wire.orders import Orders
from tests.edge.agent_child import main
from tests.edge.agents import (
    QUERIES,
    answers,
    expected,
    in_any_order,
    orders_for,
    received,
    rows_in,
    sent_rows,
    upper,
    write_files,
)

CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["tests.edge.agent_child"])
"""They begin with everything imported."""
FILES = 12
"""Of three pieces each: enough frames for two groups of them to be deleted."""
POINTS = [
    ("before", "half", ".spooled", 2),
    ("before", "rename", ".spooled", 1),
    ("before", "rename", ".spooled", 5),
    ("after", "rename", ".spooled", 1),
    ("after", "rename", ".spooled", 20),
    ("before", "half", "/up/", 3),
    ("before", "rename", "/up/", 7),
    ("before", "rename", "known.json", 2),
    ("after", "rename", "known.json", 2),
    ("after", "rename", "/up/", 18),
    ("before", "delete", ".spooled", 1),
    ("after", "delete", ".spooled", 3),
]


def child(root: Path, *point: object) -> ForkServerProcess:
    process = CHILDREN.Process(target=main, args=(str(root), *map(str, point)))
    process.start()
    return process


def exit_code(process: ForkServerProcess) -> int | None:
    process.join(120)
    return process.exitcode


@pytest.mark.parametrize("point", POINTS, ids=lambda point: "-".join(map(str, point)))
def test_an_agent_dies_at_a_point(point: tuple[str, str, str, int], tmp_path: Path) -> None:
    upper(tmp_path).publish(Orders("r"))
    write_files(tmp_path, FILES)
    assert exit_code(child(tmp_path, *point)) == -signal.SIGKILL
    assert exit_code(child(tmp_path)) == 0
    assert in_any_order(rows_in(received(tmp_path))) == in_any_order(sent_rows(FILES))


@pytest.mark.slow
@pytest.mark.parametrize("story", range(3))
def test_an_agent_is_killed_again_and_again(story: int, tmp_path: Path) -> None:
    """With a plan; files come between the kills."""
    seed = int.from_bytes(os.urandom(4), "big")
    print("seed", seed)
    source = random.Random(seed)
    orders = orders_for(QUERIES)
    upper(tmp_path).publish(orders)
    written = 0
    for _ in range(6):
        count = written + source.randint(10, 40)
        write_files(tmp_path, count, first=written)
        written = count
        before = len(list(upper(tmp_path).waiting()))
        process = child(tmp_path)
        try:
            while process.is_alive() and len(list(upper(tmp_path).waiting())) == before:
                time.sleep(0.005)
            time.sleep(source.random() * 0.4)
        finally:
            process.kill()
            process.join()
    assert exit_code(child(tmp_path)) == 0
    frames = received(tmp_path)
    assert sum(frame.header.rows.read for frame in frames) == written * 12, f"seed {seed}"
    assert answers(frames, [orders.plan], QUERIES) == expected(written, QUERIES), f"seed {seed}"
