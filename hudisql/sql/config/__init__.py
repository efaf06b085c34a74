"""The `hoodie.*` settings of a statement, read and checked."""
