"""The Hive Metastore: client, embedded server, and the sync that keeps it in step with the table."""
