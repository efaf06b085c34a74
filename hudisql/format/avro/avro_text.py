"""Rows as the text of an Avro record, for people to read.

Follows `GenericData.toString` of Avro 1.11, except for decimals, which are numbers here and bytes there.
Dates, times and timestamps are the integers that Avro stores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from hudisql.format.encoding.java_text import render_floating

_NULL: Final = "null"
_INTEGERS: Final[Sequence[tuple[Callable[[pa.DataType], bool], pa.DataType]]] = (
    (pa.types.is_date32, pa.int32()),
    (pa.types.is_time32, pa.int32()),
    (pa.types.is_time64, pa.int64()),
    (pa.types.is_timestamp, pa.int64()),
)


def avro_texts(batch: pa.RecordBatch) -> list[str]:
    """The text of each row: JSON, except for numbers that JSON does not allow."""
    columns = [_texts(column) for column in batch.columns]
    return _records(batch.schema.names, columns, batch.num_rows)


def _records(names: Sequence[str], columns: Sequence[Sequence[str]], count: int) -> list[str]:
    rows = zip(*columns, strict=True) if columns else ((),) * count
    quoted = [_quoted(name) for name in names]
    return [
        f"{{{', '.join(f'{name}: {value}' for name, value in zip(quoted, row, strict=True))}}}"
        for row in rows
    ]


def _texts(values: pa.Array) -> list[str]:
    """The text of each value of a column."""
    kind = values.type
    if pa.types.is_struct(kind):
        columns = [_texts(column) for column in values.flatten()]
        records = _records([field.name for field in kind], columns, len(values))
        return [_NULL if missing else text for missing, text in zip(values.is_null(), records, strict=True)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _nested(values, _texts(values.flatten()), "[]")
    if pa.types.is_map(kind):
        # A map's entries are a struct: `flatten` drops the entries of null maps.
        entries = values.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))).flatten()
        keys, items = (_texts(column) for column in entries.flatten())
        pairs = [f"{key}: {item}" for key, item in zip(keys, items, strict=True)]
        return _nested(values, pairs, "{}")
    return [_NULL if text is None else text for text in _scalar_texts(values)]


def _nested(values: pa.Array, items: Sequence[str], brackets: str) -> list[str]:
    """The items of each list or map, in brackets."""
    texts, position = [], 0
    for value in values:
        if not value.is_valid:
            texts.append(_NULL)
            continue
        count = len(value.as_py())
        texts.append(f"{brackets[0]}{', '.join(items[position : position + count])}{brackets[1]}")
        position += count
    return texts


def _scalar_texts(values: pa.Array) -> list[str | None]:
    kind = values.type
    for is_kind, stored in _INTEGERS:
        if is_kind(kind):
            return [None if value is None else str(value) for value in values.cast(stored).to_pylist()]
    if pa.types.is_floating(kind):
        texts = render_floating(values).to_pylist()
        return [f'"{text}"' if text in ("NaN", "Infinity", "-Infinity") else text for text in texts]
    return [None if value is None else _scalar_text(value) for value in values.to_pylist()]


def _scalar_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f'{{"bytes": {_quoted(value.decode("latin-1"))}}}'
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
