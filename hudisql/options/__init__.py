"""From `hoodie.*` options to the values that writers and procedures take."""
