"""Which group-bys nobody asked for are worth a table at the edge, and how large each table is [GS]."""
