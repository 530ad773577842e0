"""Boundaries, paired windows, their composition, and which slices make a window."""

from headrace.windows.boundaries import (
    Boundaries,
    boundaries_between,
    compose,
    paired_boundaries,
    slice_vector,
    slices_per_hour,
)
from headrace.windows.instances import bounds_of, instances_ending, instances_of, last_ending
from headrace.windows.slices import Slices, horizon, slices_between, slices_holding

__all__ = [
    "Boundaries",
    "Slices",
    "boundaries_between",
    "bounds_of",
    "compose",
    "horizon",
    "instances_ending",
    "instances_of",
    "last_ending",
    "paired_boundaries",
    "slice_vector",
    "slices_between",
    "slices_holding",
    "slices_per_hour",
]
