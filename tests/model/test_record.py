"""Records are read from several threads at once, also if their types were never used before."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, threading
from headrace.storage.disk import from_json, to_json
from headrace.storage.records import Commit, ObjectRef, QueryState

queries = {"q": QueryState(1, skipped=((1, 2),))}
data = to_json(Commit(3, 1, "", 2, None, {}, queries=queries, manifests=(ObjectRef(1, "a", "b"),)))
barrier = threading.Barrier(8)
sys.setswitchinterval(1e-6)


def read():
    barrier.wait()
    for _ in range(3):
        from_json(data, Commit)


threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
TRIES = 10
"""Without a lock about a quarter of these crashed."""


def test_types_may_be_used_first_by_several_threads() -> None:
    for _ in range(TRIES):
        child = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, timeout=60, check=False)
        assert child.returncode == 0, child.stderr.decode()
