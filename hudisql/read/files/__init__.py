"""Rows of base files: parquet, splits, predicates, conversion to the table schema."""
