"""The daemon that forks Spark's Python workers. It has loaded the kernel, so workers need not load it."""

from __future__ import annotations

import gc

from pyspark.daemon import manager

import headrace.engine.step.level1_task
import headrace.engine.step.level2_task  # noqa: F401 - loaded for the workers
from headrace.kernel.memory import keep_memory

if __name__ == "__main__":
    # A worker collects garbage after every task. Frozen objects are left out, which saves 0.1 s each time.
    gc.collect()
    gc.freeze()
    keep_memory()
    manager()
