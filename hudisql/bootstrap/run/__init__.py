"""Carrying a plan out: tasks, key check, commit."""
