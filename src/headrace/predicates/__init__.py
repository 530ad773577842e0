"""Atoms, dimensions, cells and fragments: what a WHERE clause asks of a row."""
