"""From a request to a printable plan: checks, schema, and how each partition is bootstrapped."""
