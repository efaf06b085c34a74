"""Past states of a table, and the changes between them."""
