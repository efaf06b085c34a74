"""Procedures of table services, of the metastore sync and of repairs."""
