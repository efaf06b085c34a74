"""Rollbacks, savepoints, restores and the rollback of pending plans."""
