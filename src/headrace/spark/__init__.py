"""Level 2: steps, journal, slice store, close, watermark, sources and sinks. The only place for PySpark."""
