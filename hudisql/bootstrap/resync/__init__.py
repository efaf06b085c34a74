"""Resync: commits files that came to the source of a bootstrapped table after its bootstrap."""
