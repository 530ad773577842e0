"""Golden pairs: statements as people write them, and the canonical text that all of them have.

`golden.txt` holds blocks of lines: statements, then `=> ` and their canonical text. After a wanted change,
`python -m tests.sql.golden` writes the texts anew; read the difference before you keep it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.sql import format_query
from tests.sql.catalog import parse

PATH = Path(__file__).with_name("golden.txt")
MARK = "=> "


@dataclass(frozen=True, slots=True)
class Golden:
    statements: tuple[str, ...]
    canonical: str


def read() -> list[Golden]:
    found = []
    for block in PATH.read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            found.append(Golden(tuple(lines[:-1]), lines[-1].removeprefix(MARK)))
    return found


def update() -> None:
    """Each block's canonical text becomes that of its first statement."""
    blocks = []
    for block in PATH.read_text().strip().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith(MARK)]
        statements = [line for line in lines if not line.startswith("#")]
        blocks.append("\n".join([*lines, *(MARK + format_query(parse(text)) for text in statements[:1])]))
    PATH.write_text("\n\n".join(blocks) + "\n")


if __name__ == "__main__":
    update()
