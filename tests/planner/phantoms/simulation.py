"""Direct-mapped tables that feed each other, record by record in effect, a few array operations per table in fact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.planner.phantoms.configuration import Configuration
from headrace.planner.phantoms.relations import Relation

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stream:
    """Records in order, as codes of their attributes."""

    columns: dict[str, Places]

    def groups(self, relation: Relation) -> Places:
        code = np.zeros(1, dtype=np.int64)
        for name in sorted(relation):
            code = code * (int(self.columns[name].max()) + 1) + self.columns[name]
        return np.unique(code, return_inverse=True)[1].reshape(-1)

    def count(self, relation: Relation) -> int:
        return int(self.groups(relation).max()) + 1


@dataclass(frozen=True, eq=False)
class Counts:
    """What happened at each table."""

    arrived: list[int]
    evicted: list[int]


def evictions(groups: Places, buckets: int, rng: np.random.Generator) -> tuple[Places, Places]:
    """For a table that starts empty: which arrival was the last of each entry pushed out, and which one did that."""
    bucket = rng.integers(0, buckets, int(groups.max(initial=0)) + 1)[groups]
    order = np.argsort(bucket, kind="stable")
    same_bucket = bucket[order][1:] == bucket[order][:-1]
    pushed = same_bucket & (groups[order][1:] != groups[order][:-1])
    last, pusher = order[:-1][pushed], order[1:][pushed]
    by_time = np.argsort(pusher)
    return last[by_time], pusher[by_time]


def simulate(configuration: Configuration, stream: Stream, rng: np.random.Generator) -> Counts:
    """Within one epoch; the tables start empty and are not emptied at the end."""
    everything = np.arange(len(next(iter(stream.columns.values()))))
    passed: list[Places] = []
    arrived: list[int] = []
    for table in configuration.tables:
        records = everything if table.parent is None else passed[table.parent]
        last, _ = evictions(stream.groups(table.attributes)[records], table.entries, rng)
        passed.append(records[last])
        arrived.append(len(records))
    return Counts(arrived, [len(records) for records in passed])


def uniform(group_count: int, records: int, attributes: str, rng: np.random.Generator, flow_length: int = 1) -> Stream:
    """Records of so many different tuples, in flows of equal length; an attribute has about the fourth root of the
    tuples' number times 4 values.
    """
    values = max(2, int(4 * group_count ** (1 / 4)))
    tuples = rng.integers(0, values, (len(attributes), group_count))
    picked = np.repeat(rng.integers(0, group_count, records // flow_length), flow_length)
    return Stream({name: tuples[place][picked] for place, name in enumerate(attributes)})
