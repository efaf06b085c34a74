"""Paths of columns: the names from a column down to a member of structs."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

ColumnPath: TypeAlias = tuple[str, ...]


def type_of_path(schema: pa.Schema, path: ColumnPath) -> pa.DataType | None:
    """The type of the column, or of the struct member, at the path; None if there is none."""
    index = schema.get_field_index(path[0])
    if index < 0:
        return None
    current = schema.field(index).type
    for name in path[1:]:
        if not pa.types.is_struct(current) or current.get_field_index(name) < 0:
            return None
        current = current.field(name).type
    return current
