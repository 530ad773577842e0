"""Damage to the files of a state, wherever they are and whatever they are called: a matrix that finds its own cases.

A subject builds a state and stops at one of three places; then one file is damaged, and the subject continues to the
end. Either there is an error that names what is wrong, or the results are what they would have been.
"""

from __future__ import annotations

import random
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from unittest.mock import patch

from headrace.model.errors import HeadraceError
from headrace.storage.slices import CACHE

PLACES = ("before the commit", "after the commit", "clean")
"""Between the journal and the commit of a step; before its results are read by sinks; after a whole step."""
NUMBERS = re.compile(r"[0-9a-f]{6,}|\d+")
READERS = ("headrace.storage.", "headrace.engine.", "headrace.edge.", "headrace.wire.")
"""Packages that keep what they have read of files."""
THREADS = ("syncing_threads", "store_threads")


def empty(path: Path, _: random.Random) -> None:
    path.write_bytes(b"")


def half(path: Path, _: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def flip(path: Path, source: random.Random) -> None:
    """One bit, anywhere."""
    data = bytearray(path.read_bytes())
    if data:
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)
        path.write_bytes(bytes(data))


def delete(path: Path, _: random.Random) -> None:
    path.unlink()


def older(path: Path, _: random.Random) -> None:
    """What an older file of its kind holds."""
    shutil.copy(like(path)[0], path)


def like(path: Path) -> list[Path]:
    """The files of its kind in its folder, oldest first, as their names are numbered."""
    kind = kind_of(path.name)
    return [other for other in sorted(path.parent.iterdir()) if other.is_file() and kind_of(other.name) == kind]


def has_older(path: Path) -> bool:
    return like(path)[0] != path


DAMAGES: Mapping[str, Callable[[Path, random.Random], None]] = {
    "empty": empty,
    "half": half,
    "flip": flip,
    "delete": delete,
    "older": older,
}


@dataclass(frozen=True, slots=True)
class Case:
    subject: str
    place: str
    file: str
    damage: str

    def __str__(self) -> str:
        return f"{self.subject}, {self.place}: {self.damage} {self.file}"


class Subject(Protocol):
    """A small job that can be stopped at a place and continued."""

    def build(self, root: Path, place: str) -> None: ...

    def folders(self, root: Path) -> Iterable[Path]:
        """Where its files are that may be damaged."""

    def finish(self, root: Path, file: Path) -> None:
        """Continue to the end, then check; an AssertionError if there is another result."""

    def check_shown(self, root: Path, file: Path) -> None:
        """Check what is visible after an error: it may be less than in the end, but nothing else."""


def kind_of(name: str) -> str:
    """Files whose names differ by numbers and digests alone are of one kind."""
    return NUMBERS.sub("*", name)


def files_of(subject: Subject, root: Path) -> list[str]:
    """Of each kind of file the first and the last, relative to the root."""
    kinds: dict[str, list[str]] = {}
    for folder in subject.folders(root):
        for path in sorted(folder.rglob("*") if folder.is_dir() else [folder]):
            if path.is_file():
                name = str(path.relative_to(root))
                kinds.setdefault(kind_of(name), []).append(name)
    return sorted({name for names in kinds.values() for name in (names[0], names[-1])})


def names_of(file: Path) -> Iterator[str]:
    """What an error may call a file: if it is missing, by the digest in its name.

    A state whose newest commit is gone is an older one. The error then names what does not fit to it: results, or what
    was deleted since.
    """
    step, _, rest = file.name.partition("-")
    yield rest if step.isdigit() and rest else file.name
    if file.parent.name == "commits" and not file.exists():
        yield "are of a later step than the state"
        yield ".frame is missing"


def forget_everything() -> None:
    """What this process has read, the next would have to read again."""
    CACHE.held.clear()
    for name, module in list(sys.modules.items()):
        if name.startswith(READERS):
            for value in vars(module).values():
                if hasattr(value, "cache_clear") and getattr(value, "__name__", "") not in THREADS:
                    value.cache_clear()


class UnclearError(Exception):
    """There is an error, but it does not say which file is damaged."""


class Matrix:
    """All cases of some subjects, in a folder. A state has the same path in every case: it names its inputs by path."""

    def __init__(self, folder: Path, subjects: Mapping[str, Subject], seed: int) -> None:
        self.folder = folder
        self.subjects = subjects
        self.seed = seed

    def root(self, subject: str) -> Path:
        return self.folder / subject.replace(" ", "-")

    def copy(self, subject: str, place: str) -> Path:
        return self.folder / "copies" / f"{subject}-{place}".replace(" ", "-")

    def cases(self) -> list[Case]:
        """Build every state once, and look which files it has."""
        found = []
        for subject in self.subjects:
            for place in PLACES:
                root = self.root(subject)
                shutil.rmtree(root, ignore_errors=True)
                root.mkdir(parents=True)
                forget_everything()
                with without_sync():
                    self.subjects[subject].build(root, place)
                shutil.copytree(root, self.copy(subject, place))
                files = files_of(self.subjects[subject], root)
                cases = [Case(subject, place, file, damage) for file in files for damage in DAMAGES]
                found += [
                    case
                    for case in cases
                    if case.damage != "older" or like(root / case.file)[0].name != Path(case.file).name
                ]
        return found

    def sample(self, count: int) -> list[Case]:
        """Some of them: one of each kind of file first, then any."""
        cases = self.cases()
        random.Random(self.seed).shuffle(cases)
        by_kind = {(case.subject, kind_of(case.file)): case for case in cases}
        chosen = list(by_kind.values())
        return (chosen + [case for case in cases if case not in chosen])[:count]

    def run(self, case: Case) -> str:
        """The outcome: `detected` or `same`; what is neither raises."""
        subject, root = self.subjects[case.subject], self.root(case.subject)
        shutil.rmtree(root)
        shutil.copytree(self.copy(case.subject, case.place), root)
        file = root / case.file
        DAMAGES[case.damage](file, random.Random(f"{self.seed}-{case}"))
        forget_everything()
        with without_sync():
            try:
                subject.finish(root, file)
            except HeadraceError as problem:
                if not any(name in str(problem) for name in names_of(file)):
                    raise UnclearError(f"it does not name the file: {problem}") from problem
            else:
                return "same"
            subject.check_shown(root, file)
            return "detected"


def without_sync() -> ExitStack:
    """Nothing here loses its power."""
    stack = ExitStack()
    stack.enter_context(patch("os.fsync"))
    return stack


def run_cases(matrix: Matrix, cases: Iterable[Case]) -> Iterator[tuple[Case, str]]:
    """Every case with its outcome; what was neither detected nor harmless says what it was."""
    for case in cases:
        try:
            yield case, matrix.run(case)
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is the outcome
            yield case, f"wrong: {type(problem).__name__}: {problem}"[:600]
