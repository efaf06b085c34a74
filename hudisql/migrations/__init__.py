"""Migration scripts: versioned SQL files that are applied once, in their order, with a history in a table."""
