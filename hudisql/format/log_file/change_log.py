"""The blocks of change logs (`.cdc`): the rows that a write changed, for Hudi's `cdc` queries.

Follows `HoodieCDCUtils` and `HoodieCDCDataBlock` of Hudi 0.15. The supplemental logging mode of the table
says which images a row carries. Knows blocks, not files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from hudisql.format.log_file.change_log_mode import ChangeLogMode
from hudisql.format.log_file.log_block import BlockType, HeaderKey, LogBlock
from hudisql.format.log_file.log_block_content import encode_data_block
from hudisql.format.schema.avro_schema import avro_from_arrow

OPERATION, COMMIT, BEFORE, AFTER = "op", "ts_ms", "before", "after"
"""Hudi's columns of captured changes; `ts_ms` holds the instant time of the commit."""
INSERT, UPDATE, DELETE = "i", "u", "d"
_RECORD_KEY: Final = "record_key"
_KEYS_ONLY: Final = (
    '{"type":"record","name":"Record","fields":[{"name":"op","type":["string","null"]},'
    '{"name":"record_key","type":["string","null"]}]}'
)


def change_log_schema(mode: ChangeLogMode, schema: pa.Schema, table_name: str) -> str:
    """The Avro schema of the blocks of a table with these columns, as JSON text.

    Raises UnsupportedTableError for columns that Avro cannot hold.
    """
    if mode is ChangeLogMode.OP_KEY_ONLY:
        return _KEYS_ONLY
    image = json.loads(avro_from_arrow(schema, table_name))
    namespace = image.pop("namespace")
    has_after = mode is ChangeLogMode.DATA_BEFORE_AFTER
    types = {OPERATION: "string", COMMIT if has_after else _RECORD_KEY: "string", BEFORE: image}
    if has_after:
        types[AFTER] = image["name"]
    fields = [
        {"name": name, "type": ["null", kind], "doc": "", "default": None} for name, kind in types.items()
    ]
    record = {"type": "record", "name": "CDC", "namespace": namespace, "fields": fields}
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def change_log_rows(
    mode: ChangeLogMode,
    operation: str,
    instant_time: str,
    record_keys: pa.Array,
    before: pa.StructArray,
    after: pa.StructArray,
) -> pa.RecordBatch:
    """Changed rows in the columns of a block. Images are structs of the table's columns, null for none."""
    columns = {OPERATION: pa.repeat(operation, len(record_keys))}
    if mode is ChangeLogMode.DATA_BEFORE_AFTER:
        columns |= {COMMIT: pa.repeat(instant_time, len(record_keys)), BEFORE: before, AFTER: after}
    else:
        columns[_RECORD_KEY] = record_keys
        if mode is ChangeLogMode.DATA_BEFORE:
            columns[BEFORE] = before
    return pa.RecordBatch.from_pydict(columns)


def change_log_block(rows: pa.RecordBatch, avro_schema: str, instant_time: str) -> LogBlock:
    """The block of these rows of `change_log_rows`."""
    header: Mapping[int, str] = {HeaderKey.INSTANT_TIME: instant_time, HeaderKey.SCHEMA: avro_schema}
    return LogBlock(BlockType.CDC_DATA, header, encode_data_block(rows, avro_schema))
