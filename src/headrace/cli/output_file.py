"""Files that a user asked for, and the errors where they can't be written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.model.errors import UsageError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise errors of the system as ours. The system may know better than we do which file it is."""
    try:
        yield
    except OSError as problem:
        why = os.strerror(problem.errno) if problem.errno else str(problem)
        raise UsageError("file", f"can't write {problem.filename or path}: {why}") from None
