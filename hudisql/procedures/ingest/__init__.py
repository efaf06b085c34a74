"""Procedures that declare ingested tables and show their state."""
