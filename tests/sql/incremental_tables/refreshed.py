"""Refreshing an incremental table, and comparing it with its query."""

from __future__ import annotations

from typing import Any

from hudisql.session import Session


def refresh(session: Session, name: str = "t", rest: str = "") -> dict[str, Any]:
    """The row that the refresh gives."""
    row: dict[str, Any] = session.sql(f"REFRESH INCREMENTAL TABLE {name} {rest}").rows[0].asDict()
    return row


def assert_fresh(session: Session, query: str, name: str = "t") -> None:
    """The table's rows are those of the query."""
    columns = ", ".join(f"`{each}`" for each in session.sql(f"SELECT * FROM ({query}) LIMIT 0").names)
    stored = session.sql(f"SELECT {columns} FROM {name}").rows
    assert sorted(map(repr, stored)) == sorted(map(repr, session.sql(query).rows)), query
