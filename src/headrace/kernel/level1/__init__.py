"""Partial aggregation: rows to partials of the plan's shipped nodes."""
