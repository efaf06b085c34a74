"""The ingest service by SQL and by name: its procedures, and the tables of a worker."""
