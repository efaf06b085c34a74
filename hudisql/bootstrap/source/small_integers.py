"""Columns of 8- and 16-bit integers that Hudi 0.15 cannot read as the table's ints, by a footer.

Found with Hudi 0.15.0 on Spark 3.5: it fails at pages without a dictionary, and wherever such integers are
inside lists, maps and structs. What follows of it is in `type_safety`'s table. Values only; knows no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def small_integer_incompatibilities(metadata: Any) -> Mapping[str, str]:
    """The name of the incompatibility of each top-level column that holds such integers
    (`pq.FileMetaData`).
    """
    found = {}
    for leaf in range(metadata.num_columns if metadata.num_rows else 0):
        column = metadata.schema.column(leaf)
        name, nested, _ = column.path.partition(".")
        if _is_small(column) and (nested or _has_plain_pages(metadata, leaf)):
            found[name] = "small_integer"
    return found


def _is_small(column: Any) -> bool:
    if column.physical_type != "INT32" or column.logical_type.type != "INT":
        return False
    described = json.loads(column.logical_type.to_json())
    # Spark reads unsigned ones of 16 bits as ints anyway.
    return bool(described["bitWidth"] == 8 or (described["bitWidth"] == 16 and described["isSigned"]))


def _has_plain_pages(metadata: Any, leaf: int) -> bool:
    chunks = (metadata.row_group(number).column(leaf) for number in range(metadata.num_row_groups))
    return any(not chunk.has_dictionary_page and chunk.num_values for chunk in chunks)
