"""Messages without a value: each deletes the row of its key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from hudisql.ingest.parse.parsed_batch import DELETE_FIELD

_NO_RECORD: Final = b""


def with_tombstones(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    schema: pa.Schema,
    key_column: str | None,
) -> Sequence[bytes]:
    """The values, with a JSON record that deletes the key in place of null and empty ones.

    Without keys, or without a key column, the empty values stay, and the parser refuses them.
    """
    if all(values):
        return values  # type: ignore[return-value]
    whole = []
    for position, value in enumerate(values):
        key = keys[position] if keys is not None and not value else None
        whole.append(value or delete_record(key, schema, key_column))
    return whole


def delete_record(key: bytes | None, schema: pa.Schema, key_column: str | None) -> bytes:
    """A JSON record with the key alone; empty without a key.

    A key is a JSON object with the key column (or Connect's wrapper of one), a JSON value, or plain text.
    """
    if not key or key_column is None:
        return _NO_RECORD
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return _NO_RECORD
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    if isinstance(found, dict):
        found = found.get("payload", found)
    if isinstance(found, dict):
        found = found.get(key_column)
    elif pa.types.is_string(schema.field(key_column).type) and not isinstance(found, str):
        found = text
    if found is None:
        return _NO_RECORD
    return json.dumps({key_column: found, DELETE_FIELD: True}).encode()
