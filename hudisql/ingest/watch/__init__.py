"""Watching a worker: what it tells of its tables, as metrics, as lines of a log, to a health check."""
