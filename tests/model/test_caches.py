"""What is computed from plans is kept, but not for all plans that there ever were."""

from __future__ import annotations

from unittest.mock import patch

from headrace.model.caches import CACHES, MAX_PLANS, cached, note_plan


def test_parts_of_former_plans_are_forgotten() -> None:
    with patch("headrace.model.caches.CACHES", []), patch("headrace.model.caches.PLANS", set()):
        computed = []

        @cached
        def double(number: int) -> int:
            computed.append(number)
            return 2 * number

        for plan in range(MAX_PLANS):
            note_plan(f"plan {plan}")
            note_plan("plan 0")
            assert double(4) == 8
        assert computed == [4]
        note_plan("one more")
        assert double(4) == 8
        assert computed == [4, 4]


def test_every_cache_of_parts_is_known() -> None:
    import headrace.engine.step.runner  # noqa: F401 - loads the kernel

    assert {"demand", "node_id", "cuts_of", "sieve_of"} <= {cache.__name__ for cache in CACHES}
