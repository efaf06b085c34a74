"""Checks whether the condition of a MERGE compares the whole record key; else it finds other keys, too.

Reads only the condition, with sqlglot; a column is the target's if its qualifier, or its name, says so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError


def missing_key_columns(
    condition: str, target_names: Collection[str], record_key: Sequence[str]
) -> tuple[str, ...]:
    """The columns of the record key that no `target.column = …` of the conjunction compares.

    Empty for a condition that sqlglot cannot read: Spark then reports the error.
    """
    try:
        tree = sqlglot.parse_one(condition, dialect="spark")
    except SqlglotError:
        return ()
    names = {name.lower() for name in target_names}
    compared: set[str] = set()
    for part in tree.flatten() if isinstance(tree, exp.And) else [tree]:
        inner = part.unnest()
        if isinstance(inner, exp.EQ | exp.NullSafeEQ):
            compared |= {
                side.name.lower()
                for side in (inner.left, inner.right)
                if isinstance(side, exp.Column) and (not side.table or side.table.lower() in names)
            }
    return tuple(column for column in record_key if column.lower() not in compared)
