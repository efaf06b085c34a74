"""Scans of a table: planned, read by Arrow or by Spark."""
