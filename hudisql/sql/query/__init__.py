"""Queries over Hudi tables: table references, views, what Catalyst needs, protected directories."""
