"""Names of data files, partition paths and partition metadata."""
