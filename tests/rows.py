"""Rows as tests compare them."""

from __future__ import annotations

import json
from typing import Any

from hudisql.session import Session


def rows(session: Session, text: str) -> list[tuple[Any, ...]]:
    """The rows of a statement."""
    return [tuple(row) for row in session.sql(text).rows]


def json_rows(frame: Any) -> list[str]:
    """The rows of a DataFrame as sorted JSON texts, by which rows of every type are compared."""
    texts = frame.selectExpr("to_json(struct(*))").collect()
    return sorted(json.dumps(json.loads(row[0]), sort_keys=True) for row in texts)
