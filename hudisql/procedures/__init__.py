"""The procedures that CALL can run: one registry, one module per family."""
