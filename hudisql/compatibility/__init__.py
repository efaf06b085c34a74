"""Which reader reads a table correctly: the table's state, and the measured behaviour of each reader."""
