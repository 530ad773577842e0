"""Atoms, dimensions, cells and fragments of predicates."""

from headrace.predicates.cells import (
    coalesce,
    final_aggregation,
    fragments,
    implies,
    observed_cells,
    truth_grid,
    truth_matrix,
)
from headrace.predicates.dimensions import Cut, Dimension, Kind
from headrace.predicates.predicate import Predicate, union_dimensions

__all__ = [
    "Cut",
    "Dimension",
    "Kind",
    "Predicate",
    "coalesce",
    "final_aggregation",
    "fragments",
    "implies",
    "observed_cells",
    "truth_grid",
    "truth_matrix",
    "union_dimensions",
]
