"""Archiving of old instants."""
