"""Merging the log records of a file slice by record key."""
