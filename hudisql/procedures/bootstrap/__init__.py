"""Procedures that bootstrap, verify, migrate and remove tables."""
