"""Table services: maintenance of tables beside their writers."""
