"""The metadata table of a table: which of its records count, and what they say."""
