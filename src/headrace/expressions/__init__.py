"""What expressions mean before any row is seen: the function table with its typing rules, and the normal form."""
