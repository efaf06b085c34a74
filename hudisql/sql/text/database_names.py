"""The database of a CREATE DATABASE or a USE, which Spark runs, recognized by the text."""

from __future__ import annotations

import re
from typing import Final

_CREATE: Final = re.compile(
    r"\s*CREATE\s+(?:DATABASE|SCHEMA|NAMESPACE)\s+(?:IF\s+NOT\s+EXISTS\s+)?`?(\w+)", re.IGNORECASE
)
_USE: Final = re.compile(r"\s*USE\s+(?:DATABASE\s+|SCHEMA\s+|NAMESPACE\s+)?`?(\w+)`?\s*$", re.IGNORECASE)


def created_database(text: str) -> str | None:
    """The database that the statement creates, in lower case."""
    match = _CREATE.match(text)
    return None if match is None else match[1].lower()


def used_database(text: str) -> str | None:
    """The database that the statement switches to, in lower case."""
    match = _USE.match(text)
    return None if match is None else match[1].lower()
