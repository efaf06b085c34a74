"""Settings and configuration keys: hudisql's own and Hudi's."""
