"""Long-running processes over the tables of a metastore."""
