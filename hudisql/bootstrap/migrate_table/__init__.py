"""A plain table becomes a Hudi table under its own name, and back."""
