"""The metadata table of a table, made and kept with its changes."""
