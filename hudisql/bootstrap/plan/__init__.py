"""From a request to a printable plan: checks, schema, and the mode of each partition."""
