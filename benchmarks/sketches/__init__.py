"""Sketches of the papers that only benchmarks use."""
