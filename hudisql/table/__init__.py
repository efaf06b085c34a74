"""A Hudi table as it stands: properties, partitions, file groups and slices as of an instant."""
