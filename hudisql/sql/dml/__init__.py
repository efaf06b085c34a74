"""INSERT, UPDATE, DELETE and MERGE: plan, rewrite, execution."""
