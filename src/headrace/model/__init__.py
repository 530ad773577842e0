"""Frozen values that everything else is made of: types, expressions, windows, schemas, queries, errors, time."""
