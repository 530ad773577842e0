"""The command line, and the outermost loop where errors end."""
