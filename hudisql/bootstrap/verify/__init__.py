"""Comparing a bootstrapped table with its source."""
