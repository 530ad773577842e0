"""Quantiles, heavy hitters and distinct counts [UDAF]."""
