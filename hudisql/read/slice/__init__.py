"""Rows of one file slice."""
