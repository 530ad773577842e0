"""Atoms, dimensions and cells of predicates."""

from headrace.predicates.dimensions import Cut, Dimension, Kind
from headrace.predicates.predicate import Predicate, implies, truth_grid, union_dimensions

__all__ = [
    "Cut",
    "Dimension",
    "Kind",
    "Predicate",
    "implies",
    "truth_grid",
    "union_dimensions",
]
