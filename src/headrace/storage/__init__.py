"""Every durable byte: records, slices, staged results, ownership, garbage."""
