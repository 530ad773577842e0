"""The benchmark commands."""
