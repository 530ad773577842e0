"""Variances and standard deviations, of a population and of a sample."""

from __future__ import annotations

from headrace.aggregates.arguments import double_of_number
from headrace.aggregates.specification import PartialKind, Specification

MOMENTS = PartialKind("moments", fold=4, combine=6, state_bytes=24, equality="close")

AGGREGATES = (
    Specification("var_pop", double_of_number, (MOMENTS,)),
    Specification("var_samp", double_of_number, (MOMENTS,), synonyms=("variance",)),
    Specification("stddev_pop", double_of_number, (MOMENTS,)),
    Specification("stddev_samp", double_of_number, (MOMENTS,), synonyms=("stddev", "std")),
)
