"""Publishes the state of a Hudi table as an Iceberg table of format version 2, without a copy of the data.

Follows the Iceberg spec, "Table Metadata" and "File System Tables": the commit is the creation of
`v<n+1>.metadata.json`, in which one writer succeeds; `version-hint.text` is a pointer that may be late. The
metadata has one snapshot, the latest: earlier ones name base files that cleans delete. It lies below
`.hoodie`, where Hudi does not look for files of the table.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from hudisql.errors import CorruptTableError, NoSuchPathError, UnsupportedTableError
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.iceberg.data_file import Footer, metrics, single_value
from hudisql.iceberg.iceberg_schema import assign_ids, iceberg_fields, name_mapping, primitive_name
from hudisql.iceberg.manifest_files import (
    FORMAT_VERSION,
    PartitionField,
    write_manifest,
    write_manifest_list,
)
from hudisql.iceberg.published_files import PublishedFile, TableFiles, read_footers, table_files
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable

_IDS: Final = "hudisql.column-ids"
_INSTANT: Final = "hudi.instant"
_STATE: Final = "hudi.state"
_FIRST_PARTITION_FIELD: Final = 1000
_ENTRIES_OF_A_MANIFEST: Final = 250
_METADATA_FILE: Final = re.compile(r"v(\d+)\.metadata\.json")
_EPOCH_ORDINAL: Final = 719_163  # date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Publication:
    """The Iceberg table after a publication; `is_new` is False if it had this state already."""

    metadata_path: str
    snapshot_id: int
    instant: str
    source_files: int
    base_files: int
    rows: int
    is_new: bool


def iceberg_location(table: HudiTable) -> str:
    """The directory of the Iceberg table, a part of the Hudi table's own metadata."""
    return join(table.base_path, METADATA_DIRECTORY, "iceberg")


def publish(table: HudiTable, *, dry_run: bool = False) -> Publication:
    """Publish the state of the table; the caller holds its lock. A dry run checks everything, writes nothing.

    Raises UnsupportedTableError for states that Iceberg readers would misread and if another engine has
    written to the Iceberg table, SourceChangedError, CorruptTableError, StorageError.
    """
    version, previous = _latest_metadata(table)
    files = table_files(table)
    footers = read_footers(table, files.files)
    snapshot_id = int(files.digest[:15], 16)
    path = _metadata_path(table, version)
    is_new = previous is None or previous["current-snapshot-id"] != snapshot_id
    if is_new:
        path = _metadata_path(table, version + 1)
        if not dry_run:
            _write(table, _Snapshot(files, footers, snapshot_id, version + 1), previous)
    if not dry_run:
        hint = str(version + 1 if is_new else version).encode()
        table.storage.write(join(_metadata_directory(table), "version-hint.text"), hint)
    sources = sum(file.is_source for file in files.files)
    rows = sum(footer.metadata.num_rows for footer in footers)
    uri = reader_uri(table, path)
    return Publication(uri, snapshot_id, files.instant, sources, len(files.files) - sources, rows, is_new)


def reader_uri(table: HudiTable, path: str) -> str:
    """The path as Iceberg readers open it: `file:/…`, `s3://…`, `hdfs://…`."""
    return re.sub(r"^s3[an]://", "s3://", table.storage.hadoop_uri(path))


def _metadata_directory(table: HudiTable) -> str:
    return join(iceberg_location(table), "metadata")


def _metadata_path(table: HudiTable, version: int) -> str:
    return join(_metadata_directory(table), f"v{version}.metadata.json")


def _latest_metadata(table: HudiTable) -> tuple[int, dict[str, Any] | None]:
    """The newest metadata and its version, whatever the hint says; 0 and None if there is none."""
    names: list[str] = []
    with suppress(NoSuchPathError):
        names = table.storage.list_file_names(_metadata_directory(table))
    documents = [name for name in names if name.endswith(".metadata.json")]
    foreign = [name for name in documents if not _METADATA_FILE.fullmatch(name)]
    versions = [int(found[1]) for name in names if (found := _METADATA_FILE.fullmatch(name))]
    if foreign:
        raise _written_by_others(table, foreign[0])
    if not versions:
        return 0, None
    path = _metadata_path(table, max(versions))
    try:
        metadata: dict[str, Any] = json.loads(table.storage.read(path))
        current = metadata["current-snapshot-id"]
        summaries = {each["snapshot-id"]: each["summary"] for each in metadata["snapshots"]}
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTableError(
            f"{path} is not the metadata of an Iceberg table: {error!r}",
            hint=f"delete the directory {iceberg_location(table)} and publish again",
        ) from error
    if _STATE not in summaries.get(current, {}):
        raise _written_by_others(table, path)
    return max(versions), metadata


def _written_by_others(table: HudiTable, name: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"another engine has written to the Iceberg table of {table.base_path} ({name}): its rows are not in "
        "the Hudi table",
        hint=f"read what it wrote if you need it, then delete the directory {iceberg_location(table)} and "
        "publish again",
    )


@dataclass(frozen=True)
class _Snapshot:
    """What one publication writes; `version` is that of its metadata file."""

    files: TableFiles
    footers: Sequence[Footer]
    snapshot_id: int
    version: int


def _write(table: HudiTable, snapshot: _Snapshot, previous: Mapping[str, Any] | None) -> None:
    """Manifests, then their list, then the metadata, whose creation is the commit."""
    known = json.loads(previous["properties"][_IDS]) if previous else {}
    ids = assign_ids(known, [table.schema, META_SCHEMA, *(footer.schema for footer in snapshot.footers)])
    schema = _schema_document(iceberg_fields(table.schema, ids), previous)
    partition = [
        PartitionField(
            column.name,
            ids[column.name],
            _FIRST_PARTITION_FIELD + place,
            primitive_name(column.type) or "string",
        )
        for place, column in enumerate(table.partition_columns)
    ]
    sequence = (previous["last-sequence-number"] if previous else 0) + 1
    list_path = _write_manifests(table, snapshot, (ids, schema, partition, sequence))
    metadata = _metadata_document(table, snapshot, previous, (ids, schema, partition, sequence), list_path)
    text = json.dumps(metadata, indent=1, ensure_ascii=False)
    table.storage.create(_metadata_path(table, snapshot.version), text.encode())


_Layout = tuple[dict[str, int], dict[str, Any], list[PartitionField], int]


def _schema_document(fields: list[dict[str, Any]], previous: Mapping[str, Any] | None) -> dict[str, Any]:
    """The schema with these fields: one of the previous metadata's, or a new one."""
    schemas = previous["schemas"] if previous else []
    for schema in schemas:
        if schema["fields"] == fields:
            return dict(schema)
    return {"type": "struct", "schema-id": len(schemas), "fields": fields}


def _write_manifests(table: HudiTable, snapshot: _Snapshot, layout: _Layout) -> str:
    """Write the manifests and their list; the list's path. Files of a killed publication are replaced."""
    ids, schema, partition, sequence = layout
    pairs = [
        pair for pair in zip(snapshot.files.files, snapshot.footers, strict=True) if pair[1].metadata.num_rows
    ]
    manifests: list[dict[str, Any]] = []
    start = f"{snapshot.snapshot_id}-v{snapshot.version}"
    for first in range(0, len(pairs), _ENTRIES_OF_A_MANIFEST):
        some = pairs[first : first + _ENTRIES_OF_A_MANIFEST]
        entries = [_entry(table, file, footer, ids, partition) for file, footer in some]
        content = write_manifest(entries, schema, partition, snapshot.snapshot_id)
        path = join(_metadata_directory(table), f"{start}-m{len(manifests)}.avro")
        table.storage.write(path, content)
        counts = {"added_files_count": len(some), "existing_files_count": 0, "deleted_files_count": 0}
        rows = sum(footer.metadata.num_rows for _, footer in some)
        counts |= {"added_rows_count": rows, "existing_rows_count": 0, "deleted_rows_count": 0}
        manifests.append(
            {
                "manifest_path": reader_uri(table, path),
                "manifest_length": len(content),
                "partition_spec_id": 0,
                "content": 0,
                "sequence_number": sequence,
                "min_sequence_number": sequence,
                "added_snapshot_id": snapshot.snapshot_id,
                **counts,
                "partitions": _partition_summaries([file for file, _ in some], partition),
            }
        )
    path = join(_metadata_directory(table), f"snap-{start}.avro")
    table.storage.write(path, write_manifest_list(manifests, snapshot.snapshot_id, sequence))
    return reader_uri(table, path)


def _entry(
    table: HudiTable,
    file: PublishedFile,
    footer: Footer,
    ids: Mapping[str, int],
    partition: Sequence[PartitionField],
) -> dict[str, Any]:
    values = {field.name: value for field, value in zip(partition, file.values, strict=True)}
    place = {"file_path": reader_uri(table, file.path), "file_format": "PARQUET", "partition": values}
    sizes = {"content": 0, "file_size_in_bytes": file.length, "sort_order_id": None}
    return {**place, **sizes, **metrics(footer, table.schema, ids)}


def _partition_summaries(
    files: Sequence[PublishedFile], partition: Sequence[PartitionField]
) -> list[dict[str, Any]]:
    """For each partition field whether values are null, and the least and greatest of them."""
    summaries = []
    for place, field in enumerate(partition):
        values: list[Any] = [file.values[place] for file in files if file.values[place] is not None]
        summary: dict[str, Any] = {"contains_null": len(values) < len(files), "contains_nan": False}
        summary |= {"lower_bound": None, "upper_bound": None}
        if values:
            summary["lower_bound"] = _partition_value(min(values), field.type)
            summary["upper_bound"] = _partition_value(max(values), field.type)
        summaries.append(summary)
    return summaries


def _partition_value(value: Any, kind: str) -> bytes:
    return single_value(value.toordinal() - _EPOCH_ORDINAL if kind == "date" else value, kind)


def _metadata_document(
    table: HudiTable,
    snapshot: _Snapshot,
    previous: Mapping[str, Any] | None,
    layout: _Layout,
    list_path: str,
) -> dict[str, Any]:
    ids, schema, partition, sequence = layout
    now = time.time_ns() // 1_000_000
    if previous is not None:
        now = max(now, previous["last-updated-ms"] + 1)
    schemas = previous["schemas"] if previous else []
    if schema not in schemas:
        schemas = [*schemas, schema]
    spec = {"spec-id": 0, "fields": [field.document() for field in partition]}
    return {
        "format-version": FORMAT_VERSION,
        "table-uuid": previous["table-uuid"] if previous else str(uuid.uuid4()),
        "location": reader_uri(table, iceberg_location(table)),
        "last-sequence-number": sequence,
        "last-updated-ms": now,
        "last-column-id": max(ids.values()),
        "current-schema-id": schema["schema-id"],
        "schemas": schemas,
        "default-spec-id": 0,
        "partition-specs": [spec],
        "last-partition-id": _FIRST_PARTITION_FIELD - 1 + len(partition),
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {
            "gc.enabled": "false",
            "schema.name-mapping.default": json.dumps(name_mapping(ids)),
            _IDS: json.dumps(ids),
        },
        "current-snapshot-id": snapshot.snapshot_id,
        "refs": {"main": {"snapshot-id": snapshot.snapshot_id, "type": "branch"}},
        "snapshots": [
            {
                "snapshot-id": snapshot.snapshot_id,
                "sequence-number": sequence,
                "timestamp-ms": now,
                "manifest-list": list_path,
                "schema-id": schema["schema-id"],
                "summary": {
                    "operation": "overwrite",
                    _INSTANT: snapshot.files.instant,
                    _STATE: snapshot.files.digest,
                },
            }
        ],
        "snapshot-log": [{"snapshot-id": snapshot.snapshot_id, "timestamp-ms": now}],
        "metadata-log": [],
    }
