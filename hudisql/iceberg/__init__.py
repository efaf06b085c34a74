"""A Hudi table published as an Iceberg table over the same data files."""
