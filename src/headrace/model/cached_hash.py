"""Values that are looked up again and again."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import Any


class HashedOnce:
    """A frozen dataclass whose hash is worked out once. It says `__hash__ = HashedOnce.__hash__`."""

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(self.__getstate__().values()))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, and nothing that was worked out: hashes of texts differ from process to process."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
