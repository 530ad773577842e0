"""The contract of an aggregate, the registry, and one file per family."""
