"""The Avro files of an Iceberg snapshot: manifests and the manifest list, of format version 2 or 3.

Follows the Iceberg spec, "Manifests" and "Manifest Lists"; the numbers are its field ids. Values only.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import fastavro

from hudisql.iceberg.stored_entries import write_entries

FORMAT_VERSION: Final = 2
WITH_ROW_IDS: Final = 3
FORMAT_VERSIONS: Final = (FORMAT_VERSION, WITH_ROW_IDS)
"""The format versions: of new tables, and the one that has row ids and deletion vectors."""
EXISTING: Final = 0
ADDED: Final = 1
DELETED: Final = 2
"""The statuses of manifest entries."""
DATA: Final = 0
POSITION_DELETES: Final = 1
"""The contents of files, and of manifests."""


@dataclass(frozen=True)
class PartitionField:
    """An identity partition field: the column, its id, the field's own id (from 1000) and Iceberg's type."""

    name: str
    source_id: int
    field_id: int
    type: str

    def document(self) -> dict[str, Any]:
        """The field in the JSON of a partition spec."""
        identity = {"name": self.name, "transform": "identity"}
        return {**identity, "source-id": self.source_id, "field-id": self.field_id}


def added_entry(data_file: Mapping[str, Any], snapshot_id: int) -> dict[str, Any]:
    """The manifest entry of a data file that the snapshot adds; its sequence numbers are the manifest's."""
    numbers = {"sequence_number": None, "file_sequence_number": None}
    return {"status": ADDED, "snapshot_id": snapshot_id, **numbers, "data_file": data_file}


def deleted_entry(entry: Mapping[str, Any], snapshot_id: int) -> dict[str, Any]:
    """The entry, which has sequence numbers, as that of a file that the snapshot is without."""
    return {**entry, "status": DELETED, "snapshot_id": snapshot_id}


def write_manifest(
    entries: Iterable[Mapping[str, Any]],
    schema: Mapping[str, Any],
    partition: Sequence[PartitionField],
    content: int,
    format_version: int = FORMAT_VERSION,
) -> bytes:
    """A manifest of these entries, which are all of one content."""
    metadata = {
        "schema": json.dumps(schema),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": json.dumps([field.document() for field in partition]),
        "partition-spec-id": "0",
        "format-version": str(format_version),
        "content": "data" if content == DATA else "deletes",
    }
    return write_entries(_entry_schema(partition, format_version), entries, metadata)


def write_manifest_list(
    manifests: Iterable[Mapping[str, Any]],
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    first_row_id: int | None = None,
) -> bytes:
    """The manifest list of a snapshot that has these manifests (the spec's `manifest_file`).

    `first_row_id` is the first id of the snapshot's new rows, in format version 3 alone.
    """
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_id is None else str(parent_id),
        "sequence-number": str(sequence_number),
    }
    if first_row_id is None:
        return _avro(_LIST_SCHEMA, manifests, metadata | {"format-version": str(FORMAT_VERSION)})
    metadata |= {"format-version": str(WITH_ROW_IDS), "first-row-id": str(first_row_id)}
    fields = [*_LIST_SCHEMA["fields"], _field("first_row_id", 520, "long", optional=True)]
    return _avro({**_LIST_SCHEMA, "fields": fields}, manifests, metadata)


def read_records(content: bytes) -> list[dict[str, Any]]:
    """The records of a manifest or a manifest list, as they are written. Raises ValueError."""
    try:
        return [record for record in fastavro.reader(io.BytesIO(content)) if isinstance(record, dict)]
    except (EOFError, IndexError, KeyError, TypeError) as error:
        raise ValueError(repr(error)) from error


def _avro(schema: Any, records: Iterable[Any], metadata: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    fastavro.writer(buffer, fastavro.parse_schema(schema), records, codec="deflate", metadata=dict(metadata))
    return buffer.getvalue()


def _field(name: str, field_id: int, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    if not optional:
        return {"name": name, "type": kind, "field-id": field_id}
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}


def _map(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    fields = [_field("key", key_id, "int"), _field("value", value_id, value)]
    entry = {"type": "record", "name": f"k{key_id}_v{value_id}", "fields": fields}
    return {"type": "array", "logicalType": "map", "items": entry}


_AVRO_TYPES: Final[Mapping[str, Any]] = {"date": {"type": "int", "logicalType": "date"}}


def _entry_schema(partition: Sequence[PartitionField], format_version: int) -> dict[str, Any]:
    kinds = [
        _field(field.name, field.field_id, _AVRO_TYPES.get(field.type, field.type), optional=True)
        for field in partition
    ]
    data_file = [
        _field("content", 134, "int"),
        _field("file_path", 100, "string"),
        _field("file_format", 101, "string"),
        _field("partition", 102, {"type": "record", "name": "r102", "fields": kinds}),
        _field("record_count", 103, "long"),
        _field("file_size_in_bytes", 104, "long"),
        _field("column_sizes", 108, _map(117, 118, "long"), optional=True),
        _field("value_counts", 109, _map(119, 120, "long"), optional=True),
        _field("null_value_counts", 110, _map(121, 122, "long"), optional=True),
        _field("lower_bounds", 125, _map(126, 127, "bytes"), optional=True),
        _field("upper_bounds", 128, _map(129, 130, "bytes"), optional=True),
        _field("split_offsets", 132, {"type": "array", "items": "long", "element-id": 133}, optional=True),
        _field("sort_order_id", 140, "int", optional=True),
        _field("referenced_data_file", 143, "string", optional=True),
    ]
    if format_version == WITH_ROW_IDS:
        data_file += [
            _field("first_row_id", 142, "long", optional=True),
            _field("content_offset", 144, "long", optional=True),
            _field("content_size_in_bytes", 145, "long", optional=True),
        ]
    fields = [
        _field("status", 0, "int"),
        _field("snapshot_id", 1, "long", optional=True),
        _field("sequence_number", 3, "long", optional=True),
        _field("file_sequence_number", 4, "long", optional=True),
        _field("data_file", 2, {"type": "record", "name": "r2", "fields": data_file}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


_SUMMARY: Final = {
    "type": "record",
    "name": "r508",
    "fields": [
        _field("contains_null", 509, "boolean"),
        _field("contains_nan", 518, "boolean", optional=True),
        _field("lower_bound", 510, "bytes", optional=True),
        _field("upper_bound", 511, "bytes", optional=True),
    ],
}
_LIST_SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _field("manifest_path", 500, "string"),
        _field("manifest_length", 501, "long"),
        _field("partition_spec_id", 502, "int"),
        _field("content", 517, "int"),
        _field("sequence_number", 515, "long"),
        _field("min_sequence_number", 516, "long"),
        _field("added_snapshot_id", 503, "long"),
        _field("added_files_count", 504, "int"),
        _field("existing_files_count", 505, "int"),
        _field("deleted_files_count", 506, "int"),
        _field("added_rows_count", 512, "long"),
        _field("existing_rows_count", 513, "long"),
        _field("deleted_rows_count", 514, "long"),
        _field("partitions", 507, {"type": "array", "items": _SUMMARY, "element-id": 508}, optional=True),
    ],
}
