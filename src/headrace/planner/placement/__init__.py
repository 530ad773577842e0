"""Which part of a plan runs on which machine."""
