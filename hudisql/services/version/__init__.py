"""Upgrade and downgrade of the table version."""
