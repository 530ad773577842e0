"""Ownership of a state: an epoch that is created once fences older owners. Nothing else is needed to be right.

So that a second engine does not begin by mistake, an owner also shows that it lives: by a lock on a file where the
state is on a disk, by an object that it writes again and again where it is in an object store.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from socket import gethostname
from typing import Protocol
from uuid import uuid4

from headrace.model.errors import HeadraceError, UsageError
from headrace.storage.directory import Directory, commit_name
from headrace.storage.disk import local_path, make_folder
from headrace.storage.store import MissingObjectError, Store, is_remote

BEAT_S = 5.0
"""Seconds between two signs of life of an owner."""
WATCHED_S = 3 * BEAT_S
"""How long an owner must not have moved to be taken for dead, if it did not say that it ended."""
pause = time.sleep


class LostOwnershipError(UsageError):
    """Another engine took the state over."""


def newest_epoch(store: Store) -> int:
    names = (entry.name.rpartition("/")[2] for entry in store.list("epochs"))
    return max((int(name) for name in names if name.isdigit()), default=0)


def in_use(store: Store) -> UsageError:
    """Names the owner, as far as it has written down who it is."""
    owner, host = "", ""
    with suppress(HeadraceError):
        owner, host, *_ = [*store.get(f"epochs/{newest_epoch(store):09}").decode(errors="replace").split(), "", ""]
    who = f" (process {owner}{' on ' if host else ''}{host})" if owner else ""
    hint = "stop it; if it hangs and can't be stopped, take_over=True takes the state from it"
    return UsageError("state-in-use", f"another engine{who} runs on {store.location}", hint=hint)


class SignOfLife(Protocol):
    """What shows others that an engine lives."""

    def close(self) -> None:
        """Show that it has ended; once more does no harm."""


class FileLock:
    """A lock that the system releases when the process ends, however it does."""

    def __init__(self, store: Store, *, take_over: bool) -> None:
        make_folder(local_path(store.location))
        self.lock = os.open(Path(store.location) / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if not take_over:
                os.close(self.lock)
                raise in_use(store) from None

    def close(self) -> None:
        if self.lock >= 0:
            os.close(self.lock)
        self.lock = -1


class Heartbeat:
    """An object with a number that grows while the owner lives, and that is deleted when it ends."""

    def __init__(self, store: Store, epoch: int) -> None:
        self.store = store
        self.name = f"alive/{epoch:09}"
        self.ended = threading.Event()
        self.store.put(self.name, b"0")
        self.thread = threading.Thread(target=self.beat, name="heartbeat", daemon=True)
        self.thread.start()

    def beat(self) -> None:
        number = 0
        while not self.ended.wait(BEAT_S):
            number += 1
            with suppress(HeadraceError):  # a store that fails for long ends the next step, which says why
                self.store.put(self.name, str(number).encode())

    def close(self) -> None:
        if self.ended.is_set():
            return
        self.ended.set()
        self.thread.join()
        with suppress(HeadraceError):
            self.store.delete([self.name])


def check_free(store: Store) -> None:
    """Raise an error if an engine owns the state now; one may come at any time."""
    if is_remote(store.location):
        watch_owner(store)
    elif (Path(store.location) / "lock").exists():
        FileLock(store, take_over=False).close()


def watch_owner(store: Store) -> None:
    """Raise an error if the newest owner gives a sign of life. That takes no time if it has ended as it should, or was
    found to be dead before: one that only slept writes its sign again.
    """
    name = f"alive/{newest_epoch(store):09}"
    try:
        first = store.get(name)
        until_s = time.monotonic() + WATCHED_S
        while time.monotonic() < until_s:
            pause(BEAT_S / 5)
            if store.get(name) != first:
                raise in_use(store)
        store.delete([name])
    except MissingObjectError:
        return


class Owner:
    """Holds a state for as long as this process lives, or until another takes it over."""

    def __init__(self, directory: Directory, *, take_over: bool = False) -> None:
        self.directory = directory
        self.store = directory.store
        self.sign: SignOfLife | None = None
        if not is_remote(self.store.location):
            self.sign = FileLock(self.store, take_over=take_over)
        elif not take_over:
            watch_owner(self.store)
        try:
            self.begin_epoch()
            if self.sign is None:
                self.sign = Heartbeat(self.store, self.epoch)
        except BaseException:
            self.close()
            raise

    def begin_epoch(self) -> None:
        """Write down who owns the state from now on."""
        self.epoch = self.newest() + 1
        while not self.store.create(
            f"epochs/{self.epoch:09}", f"{os.getpid()} {gethostname()} {uuid4().hex}\n".encode()
        ):
            self.epoch += 1
        entries = [*self.store.list("epochs"), *self.store.list("alive")]
        numbers = {entry.name: entry.name.rpartition("/")[2] for entry in entries}
        self.store.delete(name for name, number in numbers.items() if number.isdigit() and int(number) < self.epoch)

    def newest(self) -> int:
        return newest_epoch(self.store)

    def write_commit(self, step: int, data: bytes) -> bool:
        """Put the commit of a step if there is none: of two engines one commits it. Return whether it is this one, also
        if the answer to its creation was lost; False if an older owner was quicker with the same step, whose commit
        stands then.
        """
        if self.store.create(commit_name(step), data):
            return True
        if self.directory.commit(step).epoch > self.epoch:
            raise self.lost_error()
        return False

    def check_held(self) -> None:
        """Raise an error if another engine took the state over."""
        if self.newest() != self.epoch:
            raise self.lost_error()

    def lost_error(self) -> LostOwnershipError:
        problem = f"another engine took {self.store.location} over"
        return LostOwnershipError("state-lost", problem, hint="nothing was changed; stop this one")

    def close(self) -> None:
        """Once more does no harm."""
        if self.sign is not None:
            self.sign.close()
