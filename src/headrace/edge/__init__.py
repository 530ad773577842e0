"""Fixed-memory tables, the agent, the relay and frames."""
