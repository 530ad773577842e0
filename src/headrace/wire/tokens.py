"""Tokens, by which edges and relays are known, and the files that hold them.

Who sends has a file with one token. Who listens has one line for each edge, `edge NAME TOKEN`; a token alone will do
where there is only one edge. Two lines for the same edge let it change its token without a pause.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from headrace.inputs.text_file import read_text
from headrace.model.errors import UsageError, nearest

LOG = logging.getLogger(__name__)
MIN_BYTES = 16
"""Least length of a token: nobody guesses this many random bytes."""
HINT = "make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'"


@dataclass(frozen=True, slots=True)
class Tokens:
    """Edges by the digests of their tokens: to look one up takes no longer the more of it was guessed."""

    edges: Mapping[bytes, str]

    def find_edge(self, token: str) -> str | None:
        return self.edges.get(digest_of(token)) if len(token) >= MIN_BYTES else None


def tokens_of(pairs: Iterable[tuple[str, str]], place: str) -> Tokens:
    """Return the tokens of pairs of an edge and its token."""
    edges: dict[bytes, str] = {}
    for edge, token in pairs:
        check_token(token, place)
        if edges.setdefault(digest_of(token), edge) != edge:
            problem = f"{place}: the edges '{edges[digest_of(token)]}' and '{edge}' have the same token"
            raise UsageError("token", problem, hint="then each could speak for the other: give each its own")
    return Tokens(edges)


def digest_of(token: str) -> bytes:
    return sha256(token.encode()).digest()


def read_tokens(path: Path, edges: Sequence[str]) -> Tokens:
    """Return the tokens of a listener's file: a line for each of the edges, or of the only edge its token alone."""
    warn_unless_private(path)
    lines = [(number, line.split()) for number, line in enumerate(read_text(str(path)).splitlines(), 1)]
    lines = [(number, words) for number, words in lines if words]
    if [len(words) for _, words in lines] == [1]:
        (_, (token,)), names = lines[0], edges[:2]
        check_token(token, str(path))
        if len(names) > 1:
            problem = f"{path} has one token for {len(edges)} edges: each could speak for the others"
            raise UsageError("token", problem, hint=f"write a line for each: edge {names[0]} TOKEN")
        return tokens_of(((name, token) for name in names), str(path))
    if not lines:
        check_token("", str(path))
    return tokens_of((edge_line(f"{path}, line {number}", words, edges) for number, words in lines), str(path))


def edge_line(place: str, words: Sequence[str], edges: Sequence[str]) -> tuple[str, str]:
    """Return the edge and the token of a line. What else it holds is not shown: it may be a secret."""
    if words[0] != "edge" or len(words) != 3:
        raise UsageError("token", f"{place}: this is not 'edge NAME TOKEN'", hint="the lines of a token file are such")
    _, edge, token = words
    if edge not in edges:
        hint = nearest(edge, edges) or f"its edges are {', '.join(edges)}"
        raise UsageError("token", f"{place}: there is no edge '{edge}'", hint=hint)
    check_token(token, place)
    return edge, token


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
