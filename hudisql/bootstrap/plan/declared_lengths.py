"""CHAR(n) and VARCHAR(n) columns of the source's metastore entry, which the new table keeps."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from hudisql.bootstrap.blockers import Finding, warning
from hudisql.bootstrap.source.source_files import DeclaredColumn
from hudisql.format.schema.sized_text import SizedText, parse_sized_text


def declared_lengths(
    declared: Sequence[DeclaredColumn], schema: pa.Schema, keys: Collection[str]
) -> tuple[dict[str, SizedText], list[Finding]]:
    """The types of the table's text columns that the metastore declares with a length, and what is said.

    A CHAR among `keys` (columns of the record key, ordering column) becomes a string.
    """
    types = {column.name.lower(): parse_sized_text(column.type_text.lower()) for column in declared}
    lower_keys = {name.lower() for name in keys}
    lengths: dict[str, SizedText] = {}
    findings: list[Finding] = []
    for field in schema:
        sized = types.get(field.name.lower())
        if sized is None or not pa.types.is_string(field.type):
            continue
        if sized.is_char and field.name.lower() in lower_keys:
            findings.append(
                warning(
                    f"column {field.name} {sized.name} becomes string: Apache Hudi's writers would not fill "
                    "it with spaces, so that keys and orders would differ"
                )
            )
            continue
        lengths[field.name] = sized
    return lengths, findings
