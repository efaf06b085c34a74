"""Procedures of the table services: they commit by the session's settings, as statements do."""
