"""The visible file slices of a table's partitions."""
