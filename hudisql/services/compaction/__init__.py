"""Compaction of log files into base files."""
