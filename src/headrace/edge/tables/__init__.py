"""Partial aggregation in fixed memory."""
