"""Ownership of a state: one engine at a time, by a lock on this machine and an epoch that fences older owners."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from socket import gethostname

from headrace.model.errors import UsageError
from headrace.storage.directory import Directory
from headrace.storage.disk import (
    StateWriteError,
    create_file,
    sync,
    to_record,
    translate_errors,
)
from headrace.storage.records import Commit


class LostOwnershipError(UsageError):
    """Another engine took the directory over."""


def newest_epoch(root: Path) -> int:
    return max((int(path.name) for path in (root / "epochs").iterdir() if path.name.isdigit()), default=0)


def in_use(root: Path) -> UsageError:
    """Names the owner, as far as it has written down who it is."""
    try:
        owner, _, host = (root / "epochs" / f"{newest_epoch(root):09}").read_text().strip().partition(" ")
    except OSError:
        owner, host = "", ""
    who = f" (process {owner}{' on ' if host else ''}{host})" if owner else ""
    hint = "stop it; if it hangs and can't be stopped, take_over=True takes the directory from it"
    return UsageError("state-in-use", f"another engine{who} runs on {root}", hint=hint)


def check_free(root: Path) -> None:
    """Whether no engine owns the directory now; one may come at any time."""
    try:
        lock = os.open(root / "lock", os.O_RDWR)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise in_use(root) from None
    finally:
        os.close(lock)


class Owner:
    """Holds a state directory for as long as this process lives, or until another takes it over."""

    def __init__(self, directory: Directory, *, take_over: bool = False) -> None:
        self.directory = directory
        self.epochs = directory.root / "epochs"
        self.lock = os.open(directory.root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if not take_over:
                os.close(self.lock)
                raise in_use(directory.root) from None
        try:
            self.begin_epoch()
        except BaseException:
            self.close()
            raise

    def begin_epoch(self) -> None:
        """Write down who owns the directory from now on."""
        self.epoch = self.newest() + 1
        while not create_file(self.epochs / f"{self.epoch:09}", f"{os.getpid()} {gethostname()}\n".encode()):
            self.epoch += 1
        for path in self.epochs.iterdir():
            if path.name.isdigit() and int(path.name) < self.epoch:
                path.unlink(missing_ok=True)

    def newest(self) -> int:
        return newest_epoch(self.directory.root)

    def write_commit(self, commit: Commit) -> Commit:
        """Put if absent: of two engines at most one commits a step, and one that lost the directory commits none.

        Returns the record that stands: this one, also if the answer to its creation was lost; or that of an older
        owner, who was quicker with the same step.
        """
        self.check_held()
        path = self.directory.commit_path(commit.step)
        try:
            if create_file(path, to_record(commit)):
                return commit
        except StateWriteError:
            if not path.exists():
                raise
            with translate_errors(path):
                sync(path.parent)
        standing = self.directory.commit(commit.step)
        if standing.epoch > self.epoch:
            raise self.lost_error()
        return standing

    def check_held(self) -> None:
        """Raise an error if another engine took the directory over."""
        if self.newest() != self.epoch:
            raise self.lost_error()

    def lost_error(self) -> LostOwnershipError:
        problem = f"another engine took {self.directory.root} over"
        return LostOwnershipError("state-lost", problem, hint="nothing was changed; stop this one")

    def close(self) -> None:
        """Once more does no harm."""
        if self.lock >= 0:
            os.close(self.lock)
        self.lock = -1
