"""One step: what it takes, what is decided, what its tasks do, and what is committed."""
