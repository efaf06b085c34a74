"""Running a bootstrap plan: tasks, key check, commit."""
