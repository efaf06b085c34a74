"""Partitions of a table, and the source files of bootstrapped ones."""
