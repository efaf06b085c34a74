"""Checks scripts without running them: every statement is parsed, and bound to tables without rows."""
