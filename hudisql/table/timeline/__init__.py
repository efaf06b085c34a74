"""The instants of a table's active and archived timeline."""
