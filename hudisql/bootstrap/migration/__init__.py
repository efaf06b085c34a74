"""Migrations under the old name: a plain table's name goes to its Hudi table, and back."""
