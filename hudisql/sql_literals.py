"""SQL literals in texts that hudisql writes: hints, plans, SHOW CREATE TABLE."""

from __future__ import annotations


def quote_string(text: str) -> str:
    """`text` as a SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
