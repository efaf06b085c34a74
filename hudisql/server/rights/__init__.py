"""Rights of the users of `hudisql serve`: their declarations, and what each statement needs."""
