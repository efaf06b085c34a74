"""Which reader reads a table right: the table's state, and what each reader was measured to do with it."""
