"""Fixed-memory tables of an edge: their speed, and what they drop."""
