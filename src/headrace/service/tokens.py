"""Tokens, by which edges and relays are known, and the files that hold them."""

from __future__ import annotations

import logging
from pathlib import Path

from headrace.model.errors import UsageError
from headrace.service.scripts import read_text

LOG = logging.getLogger(__name__)
MIN_BYTES = 16
"""Of a token: nobody guesses so many random ones."""
HINT = "make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'"


def read_token(path: Path) -> str:
    """Return the token of a file, without the space around it."""
    warn_unless_private(path)
    token = read_text(str(path)).strip()
    check_token(token, str(path))
    return token


def warn_unless_private(path: Path) -> None:
    if path.stat().st_mode & 0o077:
        LOG.warning("%s: other users of this machine may read it: chmod 600 makes it private", path)


def check_token(token: str, place: str) -> None:
    """Raise a UsageError unless this can be a token. It is not shown: it may be a secret with a typing error."""
    if not token:
        raise UsageError("token", f"{place} has no token in it", hint=HINT)
    if not all("!" <= character <= "~" for character in token):
        raise UsageError("token", f"{place}: a token is one word of printable ASCII", hint=HINT)
    if len(token) < MIN_BYTES:
        raise UsageError("token", f"{place}: a token has at least {MIN_BYTES} bytes, not {len(token)}", hint=HINT)
