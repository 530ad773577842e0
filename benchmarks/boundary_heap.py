"""The slice manager [OTF algorithm 1]: the next boundary of a set of windows that changes while the stream runs."""

from __future__ import annotations

import heapq

from headrace.model.windows import AnyWindow
from headrace.windows.boundaries import Boundaries, paired


class BoundaryHeap:
    """One entry per window. Boundaries are aligned to the epoch, so it does not matter when a window joins."""

    def __init__(self, time_us: int) -> None:
        self.time_us = time_us
        self._boundaries: dict[str, Boundaries] = {}
        self._heap: list[tuple[int, str]] = []

    def add(self, name: str, window: AnyWindow) -> None:
        if name in self._boundaries:
            raise ValueError(f"'{name}' is in the heap already")
        self._boundaries[name] = paired(window)
        heapq.heappush(self._heap, (self._boundaries[name].next_after(self.time_us), name))

    def remove(self, name: str) -> None:
        """Its entry is left in the heap and passed over when its time comes."""
        del self._boundaries[name]

    def peek(self) -> int | None:
        """The first boundary later than the present time, or None without windows."""
        while self._heap:
            boundary_us, name = self._heap[0]
            known = self._boundaries.get(name)
            if known is not None and known.next_after(self.time_us) == boundary_us:
                return boundary_us
            heapq.heappop(self._heap)
            if known is not None and boundary_us <= self.time_us:
                heapq.heappush(self._heap, (known.next_after(self.time_us), name))
        return None

    def advance(self, time_us: int) -> bool:
        """Move to `time_us`, over any number of slices; True if a boundary lies on the way: a slice has ended."""
        if time_us < self.time_us:
            raise ValueError("time does not go back")
        boundary_us = self.peek()
        self.time_us = time_us
        return boundary_us is not None and boundary_us <= time_us
