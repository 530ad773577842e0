"""Level 1 and combine, over Arrow columns; compiled loops have modules of their own."""
