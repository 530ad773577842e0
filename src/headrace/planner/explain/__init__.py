"""A plan described for people."""
