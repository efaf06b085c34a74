"""File groups and file slices of a partition."""
