"""Writing file slices: record keys, indexes, slice writer, commit protocol."""
