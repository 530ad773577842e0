"""Text files that a user names: scripts, settings, tokens."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.model.errors import UsageError

STANDARD_INPUT = "-"


def read_text(path: str) -> str:
    """Return the text of a file, or of standard input if the path is '-'."""
    try:
        raw = sys.stdin.buffer.read() if path == STANDARD_INPUT else Path(path).read_bytes()
    except OSError as problem:
        raise UsageError("file", f"can't read {path}: {problem.strerror}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UsageError("file", f"{path} is not UTF-8 text", detail=f"byte {problem.start} does not fit") from None
