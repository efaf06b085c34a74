"""The files that a bootstrap writes: skeletons, full records, and the key ranges of both."""
