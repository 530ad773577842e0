"""What forks Spark's Python workers: it has the kernel loaded, so a worker need not load it."""

from __future__ import annotations

from pyspark.daemon import manager

import headrace.spark.mapping
import headrace.spark.reducing  # noqa: F401 - loaded for the workers

if __name__ == "__main__":
    manager()
