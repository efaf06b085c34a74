"""Rollbacks, savepoints, restores and the undoing of pending plans."""
