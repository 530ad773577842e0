"""Named sets of continuous queries over the generated data."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.datasets.workloads import gigascope, group_bys, hifi, holistic, nfc, otf
from headrace.datasets.workloads.scripts import Workload
from headrace.model.errors import UsageError

__all__ = ["WORKLOADS", "Workload", "workload"]

FAMILIES = (otf, holistic, hifi, nfc, gigascope, group_bys)

WORKLOADS: Mapping[str, Workload] = {workload.name: workload for family in FAMILIES for workload in family.WORKLOADS}


def workload(name: str, queries: int | None, seed: int) -> str:
    """Return a workload's script: the DDL of its data, then its queries, drawn from the seed."""
    if name not in WORKLOADS:
        raise UsageError("workload", f"unknown workload '{name}'", hint=f"there are {', '.join(WORKLOADS)}")
    return WORKLOADS[name].script(queries, seed)
