"""HFile, and the bootstrap index that is stored in it."""
