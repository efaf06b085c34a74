"""Writes of DataFrames by the rules of SQL statements."""
