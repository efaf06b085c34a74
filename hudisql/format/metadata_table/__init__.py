"""The records of a metadata table."""
