"""SQL text to typed statements: tokens, script splitting, the sqlglot dialect, the parser, Spark's errors."""
