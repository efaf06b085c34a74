"""Names of the columns that hudisql puts beside a table's own while it works; no file has them.

Columns of Hudi tables have Avro names (`schema.is_avro_name`), and these names have colons: the two never
meet. In SQL text they stand in quotes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from hudisql.errors import WriteRefusedError

PREFIX: Final = "__hudisql:"
"""The prefix of all internal column names."""


def internal_column(name: str) -> str:
    """The name of an internal column."""
    return f"{PREFIX}{name}"


def internal_prefix(kind: str) -> str:
    """The prefix of internal columns that hold other values of a table's columns."""
    return f"{PREFIX}{kind}:"


def refuse_internal_names(names: Iterable[str], label: str, internal: Collection[str]) -> None:
    """Raise WriteRefusedError if a column of a query has an internal name."""
    refused = [name for name in names if name.lower() in internal]
    if refused:
        raise WriteRefusedError(
            f"{label} has the column '{refused[0]}': the name is one of hudisql's own",
            hint="give the column another name (SELECT … AS …)",
        )
