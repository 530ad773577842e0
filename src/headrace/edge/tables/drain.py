"""From what tables evicted to partials of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headrace.edge.tables.operands import givens_of, state_from
from headrace.edge.tables.row_layout import Attributes, Form, attribute_of
from headrace.edge.tables.tables import Evicted
from headrace.kernel.combine import NodePartials, ordered_groups, ordered_partials
from headrace.model.arrays import Integers
from headrace.planner.lattice import Node


class Drained:
    """Rows that one query evicted, put together."""

    def __init__(self, parts: Sequence[Evicted], ends_us: Mapping[int, int]) -> None:
        lengths = [len(part) for part in parts]
        self.starts_us = np.repeat(np.array([part.slice for part in parts], dtype=np.int64), lengths)
        self.ends_us = np.repeat(np.array([ends_us[part.slice] for part in parts], dtype=np.int64), lengths)
        self.values = [np.concatenate(each) for each in zip(*(part.values for part in parts), strict=True)]
        self.matrix = np.concatenate([part.codes for part in parts], axis=1)
        self.names = parts[0].attributes

    def codes(self, attribute: str) -> list[Integers]:
        """Of each of its fields."""
        return [row for name, row in zip(self.names, self.matrix, strict=True) if attribute_of(name) == attribute]


def partials_of(node: Node, drained: Drained, attributes: Attributes, form: Form) -> NodePartials:
    """A group may come several times."""
    cells = np.zeros(len(drained.starts_us), dtype=np.int64)
    for dimension in node.dimensions:
        (codes,) = drained.codes(attributes.names[dimension])
        cells = cells * dimension.size + codes
    groups = {
        tree: attributes.groups[tree].decode(drained.codes(attributes.names[tree])) for tree in ordered_groups(node)
    }
    states = {}
    for partial in ordered_partials(node):
        wanted = givens_of(partial, attributes.operands[partial])
        places = [0 if given is None else 1 + form.givens.index(given) for given in wanted]
        states[partial] = state_from(partial, [drained.values[place] for place in places])
    return NodePartials(node, drained.starts_us, drained.ends_us, cells, groups, states)
