"""Removing a bootstrapped or dropped table."""
