"""A snapshot of a Hudi table: properties, partitions, file groups and slices as of an instant."""
