"""Column types: table definitions, store assignment, ALTER TABLE's column changes."""
