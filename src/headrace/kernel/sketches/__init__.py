"""Sketches: small summaries of many values that combine, each within a stated error. One file per algorithm."""
