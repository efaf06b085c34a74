"""Procedures that show the files, commits and properties of a table."""
