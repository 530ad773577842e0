"""Which queries a failed step is to leave out, so that the others continue (docs/operations.md).

An error that names its queries decides at once. A worker that died, or ran out of memory, names none: then the queries
that came since the last commit are suspects, and a bisection over further attempts finds those without which the step
succeeds. Time never decides: the same journal fails in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.engine.registry import RegisteredQuery, Registry
from headrace.model.errors import QueryFailure, query_failure_in

DEATHS = (
    "Python worker exited unexpectedly",
    "Python worker process terminated",
    "ExecutorLostFailure",
    "MemoryError",
    "OutOfMemoryError",
)
"""What Spark says when a worker or an executor died, or Python and Arrow when memory was short."""
DIED = "a worker died or ran out of memory when the query was answered"


def named_failure(problem: BaseException) -> QueryFailure | None:
    """The queries that an error names, also if it came from a worker of Spark as text."""
    return problem if isinstance(problem, QueryFailure) else query_failure_in(str(problem))


def is_death(problem: BaseException) -> bool:
    """Whether a worker died, or ran out of memory."""
    return isinstance(problem, MemoryError) or any(sign in str(problem) for sign in DEATHS)


def newcomers(registry: Registry, before: Mapping[str, RegisteredQuery]) -> list[str]:
    """The queries that came since the registry before, newest first."""
    new = [name for name in registry.active if name not in before or before[name] != registry.queries[name]]
    return sorted(new, key=lambda name: -registry.queries[name].generation)


class Bisection:
    """Finds the queries to leave out, by attempts that leave out some of the suspects. `left_out` are those of the
    attempt to come.
    """

    def __init__(self, suspects: Sequence[str]) -> None:
        self.waiting: list[list[str]] = []
        self.guilty: list[str] = []
        self.tested: list[str] = []
        self.suspects: list[str] = list(suspects)
        """One of these is guilty, if they are all in an attempt that fails."""
        self.untested: list[str] = []
        self.split()

    @property
    def left_out(self) -> list[str]:
        return [*self.guilty, *self.untested, *(name for group in self.waiting for name in group)]

    def split(self) -> None:
        """Of several suspects the newest half is left out; a single one is guilty."""
        if len(self.suspects) == 1:
            self.guilty += self.suspects
            self.suspects, self.tested = [], []
            return
        half = -(-len(self.suspects) // 2)
        self.untested, self.tested = self.suspects[:half], self.suspects[half:]

    def note_failure(self) -> bool:
        """Take note that the attempt failed: one of those that were in it is guilty. False if none is a suspect."""
        if not self.tested:
            return False
        if self.untested:
            self.waiting.append(self.untested)
        self.suspects, self.untested = self.tested, []
        self.split()
        return True

    def note_success(self) -> bool:
        """Take note that the attempt succeeded. True if it left out nobody but the guilty: then it stands."""
        if self.untested:
            self.suspects, self.untested = self.untested, []
            self.split()
            return False
        if self.waiting:
            self.tested = self.waiting.pop()
            return False
        return True


def with_quarantined(registry: Registry, names: Iterable[str], reason: str, closed_us: int | None) -> Registry:
    """The registry with queries that are registered, but not answered; windows that end by `closed_us` have been."""
    marked = {
        name: RegisteredQuery(known.sql, known.generation, known.query, reason, closed_us)
        for name, known in registry.queries.items()
        if name in set(names) and known.quarantine is None
    }
    return Registry(registry.version, registry.next_generation, {**registry.queries, **marked})
