"""`hudisql ingest`: a worker process that feeds the declared tables of a metastore."""
