"""One file at a time: base files, log files, merging a file slice, appending to it."""
