"""Collision rates and phantoms [GS]."""
