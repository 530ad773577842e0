"""Broken statements, made from whole ones: what fingers, editors, merges and attackers do to a text."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from tests.sql import golden

DECLARATIONS = [
    "CREATE STREAM S (a BIGINT, t TIMESTAMP, d DECIMAL(10, 2), `odd name` VARCHAR(10), x DOUBLE PRECISION) "
    "EVENT TIME t LATENESS '5 s' SKEW 10 IDLE '1 hour' PARTITION a TIME ZONE 'Europe/Berlin'",
    "CREATE TABLE T2 (a INT, b STRING); CREATE QUERY q AS SELECT count(*) FROM Trades [RANGE 60]; "
    "SELECT max(vol) FROM Trades [RANGE 1] -- a comment",
]
STATEMENTS = [statement for block in golden.read() for statement in block.statements] + DECLARATIONS
PIECE = re.compile(r"\w+|'[^']*'|`[^`]*`|\s+|.", re.DOTALL)
PIECES = [PIECE.findall(statement) for statement in STATEMENTS]
NAMES = sorted({piece for pieces in PIECES for piece in pieces if re.fullmatch(r"[A-Za-z_]+", piece)})
WORDS = """SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT AS AND OR NOT IN BETWEEN LIKE ESCAPE IS NULL TRUE FALSE CASE
WHEN THEN ELSE END CAST DISTINCT FILTER JOIN LEFT ON USING OUTER INNER CROSS RANGE SLIDE OFFSET SLICES TABLE HOP TUMBLE
DESCRIPTOR INTERVAL window window_start window_end count sum DIV OVER UNION WITH CREATE STREAM QUERY EVENT TIME DESC ASC
NULLS FIRST LAST TIMESTAMP ADDRESS DECIMAL DOUBLE STRING NATURAL FULL SESSION EXISTS VALUES LATERAL""".split()
SIGNS = "* , ( ) [ ] . ; + - / % = < > <= <> || :: -- /* */ ' \" ` \\ @ # $ ? : { } ! ~ ^ & | => -> .. ,, <=>".split()
NUMBERS = """0 1 2 60 00007 1.5 .5 5. 1e308 1e309 1e-400 1e 9223372036854775807 9223372036854775808
99999999999999999999""".split()
TEXTS = [
    "'a'",
    "''",
    "'1 min'",
    "'1 month'",
    "'2020-01-01'",
    "'10.0.0.1'",
    "'::1'",
    "'10.0.0.0/8'",
    "'%_\\\\'",
    "'5'",
    "x'1f'",
]
ODD = [
    "\0",
    "\t",
    "\n",
    "\r",
    "\x1a",
    "\x85",
    "\u2028",
    "\ufeff",
    "é",
    "\N{GRINNING FACE}",
    "\N{ARABIC-INDIC DIGIT THREE}",
]
PREFIXES = ["- ", "NOT ", "+ ", "NOT (", "-(", "(", "CASE WHEN ", "abs(", "CAST(", "/*", "'", "["]
SAME_KIND = [
    (re.compile(r"\d"), NUMBERS),
    (re.compile(r"'"), TEXTS),
    (re.compile(r"\w"), NAMES),
    (re.compile(r"[-+*/%<>=]"), ["+", "-", "*", "/", "%", "<", ">", "=", " DIV ", "<=", "<>", " AND ", " OR ", "||"]),
    (re.compile(r"[(),\[\]]"), list("(),[]")),
]

Mutation = Callable[[random.Random, list[str], int], None]


def delete(_rng: random.Random, pieces: list[str], place: int) -> None:
    del pieces[place]


def delete_range(rng: random.Random, pieces: list[str], place: int) -> None:
    del pieces[place : place + rng.randrange(2, 10)]


def cut_off(_rng: random.Random, pieces: list[str], place: int) -> None:
    del pieces[place:]


def duplicate(rng: random.Random, pieces: list[str], place: int) -> None:
    pieces.insert(rng.randrange(len(pieces)), pieces[place])


def repeat(rng: random.Random, pieces: list[str], place: int) -> None:
    pieces[place] = " ".join([pieces[place]] * rng.randrange(2, 40))


def swap(rng: random.Random, pieces: list[str], place: int) -> None:
    other = rng.randrange(len(pieces))
    pieces[place], pieces[other] = pieces[other], pieces[place]


def splice(rng: random.Random, pieces: list[str], place: int) -> None:
    other = rng.choice(PIECES)
    start = rng.randrange(len(other))
    pieces[place:place] = other[start : start + rng.randrange(1, 12)]


def cross(rng: random.Random, pieces: list[str], place: int) -> None:
    other = rng.choice(PIECES)
    pieces[place:] = other[rng.randrange(len(other)) :]


def insert(rng: random.Random, pieces: list[str], place: int) -> None:
    pieces.insert(
        place, f" {rng.choice([rng.choice(WORDS), rng.choice(SIGNS), rng.choice(NUMBERS), rng.choice(TEXTS)])} "
    )


def insert_odd(rng: random.Random, pieces: list[str], place: int) -> None:
    pieces.insert(place, rng.choice(ODD))


def replace_by_kind(rng: random.Random, pieces: list[str], place: int) -> None:
    """A number for a number, a name for a name: what comes out is often a statement."""
    for position in [place, *rng.sample(range(len(pieces)), len(pieces))]:
        for pattern, others in SAME_KIND:
            if pattern.match(pieces[position]):
                pieces[position] = rng.choice(others)
                return


def flip_character(rng: random.Random, pieces: list[str], place: int) -> None:
    piece = pieces[place]
    position = rng.randrange(len(piece))
    other = chr(rng.choice([rng.randrange(32, 127), rng.randrange(0x250), rng.randrange(0xD800)]))
    pieces[place] = piece[:position] + other + piece[position + 1 :]


def wrap(rng: random.Random, pieces: list[str], place: int) -> None:
    count = rng.randrange(1, 40)
    closing = max(0, count + rng.choice([0, 0, 0, -1, 1]))
    pieces[place] = "(" * count + pieces[place] + ")" * closing


def nest(rng: random.Random, pieces: list[str], place: int) -> None:
    pieces[place] = rng.choice(PREFIXES) * rng.randrange(1, 40) + pieces[place]


MUTATIONS: list[Mutation] = [delete, delete_range, cut_off, duplicate, repeat, swap, splice, cross, insert, insert_odd]
MUTATIONS += [flip_character, wrap, nest, *[replace_by_kind] * 6]


def mutated(rng: random.Random) -> str:
    """A statement with one to five changes."""
    return mutate(rng, rng.choice(PIECES))


def mutate(rng: random.Random, pieces: list[str]) -> str:
    pieces = list(pieces)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 5])):
        if pieces:
            rng.choice(MUTATIONS)(rng, pieces, rng.randrange(len(pieces)))
    return "".join(pieces)


def noise(rng: random.Random) -> str:
    """Random bytes, read as UTF-8 with what does not fit replaced, or as Latin-1."""
    raw = rng.randbytes(rng.randrange(1, 300))
    return raw.decode("utf-8", "replace") if rng.random() < 0.5 else raw.decode("latin-1")
