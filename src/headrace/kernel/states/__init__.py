"""The states of aggregates: fold, combine, lower."""
