"""Plans of a hierarchy [HIFI]."""
