"""Reading file slices as Arrow batches, and planning scans of many slices with Spark."""
