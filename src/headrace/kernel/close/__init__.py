"""Final aggregation: windows from partials."""
