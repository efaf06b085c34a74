"""File groups, their slices, and the blocks of their log files."""
