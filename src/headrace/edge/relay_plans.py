"""The plans that a relay keeps: it reads frames of each plan that any edge may still have."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from headrace.aggregates.registry import USER_AGGREGATES
from headrace.aggregates.user import KIND_PREFIX
from headrace.model.caches import note_plan
from headrace.model.errors import UsageError
from headrace.planner.codec import digest_of, encode
from headrace.planner.plan import Plan
from headrace.storage.directory import read_plan
from headrace.storage.disk import make_folder, write_file
from headrace.wire.exchange import Exchange
from headrace.wire.orders import Orders

MAX_PLANS = 256
"""An edge may be this many plans behind, and its frames can still be read."""


class Plans:
    """The plans that frames may be of, by their ids, in a folder `plans` as a state has one."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self.folder = folder

    def keep(self, plan: Plan) -> None:
        check_aggregates(plan)
        text = encode(plan)
        path = self.folder / f"{digest_of(text)}.json"
        if not path.exists():
            write_file(path, text.encode())

    def find(self, name: str) -> Plan | None:
        note_plan(name)
        return read_plan(str(self.folder.parent), name) if (self.folder / f"{name}.json").exists() else None

    def forget_old(self, needed: Collection[str | None]) -> None:
        """All but the newest, and those that are needed."""
        paths = sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in paths[:-MAX_PLANS]:
            if path.stem not in needed:
                path.unlink()


def check_aggregates(plan: Plan) -> None:
    """Those of users must be known here, since their own code combines them."""
    kinds = {partial.kind for planned in plan.nodes for partial in planned.node.partials}
    unknown = sorted(
        kind.removeprefix(KIND_PREFIX) for kind in kinds if kind.startswith(KIND_PREFIX) and kind not in USER_AGGREGATES
    )
    if unknown:
        problem = f"the plan has aggregates that are not known here: {', '.join(unknown)}"
        raise UsageError("functions", problem, hint="name the Python file that defines them in 'functions'")


class PlanKeeping:
    """The upper side, but that the plans of its orders are kept: before they are passed on, and any edge has them."""

    def __init__(self, above: Exchange, plans: Plans) -> None:
        self.above = above
        self.plans = plans
        self.put = above.put
        self.table_bytes = above.table_bytes

    def orders(self) -> Orders | None:
        orders = self.above.orders()
        if orders is not None and orders.plan is not None:
            self.plans.keep(orders.plan)
        return orders
