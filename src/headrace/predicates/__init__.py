"""Atoms, dimensions and cells of predicates."""

from headrace.predicates.cells import (
    coalesce,
    implies,
    truth_grid,
)
from headrace.predicates.dimensions import Cut, Dimension, Kind
from headrace.predicates.predicate import Predicate, union_dimensions

__all__ = [
    "Cut",
    "Dimension",
    "Kind",
    "Predicate",
    "coalesce",
    "implies",
    "truth_grid",
    "union_dimensions",
]
