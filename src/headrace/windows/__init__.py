"""Boundaries, paired and paned windows, their composition, and which slices make a window."""

from headrace.windows.boundaries import Boundaries, boundaries_between, compose, paired, paned, slice_vector
from headrace.windows.heap import BoundaryHeap
from headrace.windows.pace import slices_per_hour
from headrace.windows.slices import covered, horizon, inside, slices_between

__all__ = [
    "Boundaries",
    "BoundaryHeap",
    "boundaries_between",
    "compose",
    "covered",
    "horizon",
    "inside",
    "paired",
    "paned",
    "slice_vector",
    "slices_between",
    "slices_per_hour",
]
