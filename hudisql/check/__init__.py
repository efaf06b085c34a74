"""Checking scripts without running them: every statement is parsed, and bound to tables that hold no rows."""
