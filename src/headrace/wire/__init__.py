"""What edges and roots exchange: frames, ledger, orders, and both ends of HTTP."""
