"""Publishes the state of a Hudi table as an Iceberg table of format version 2, without a copy of the data.

Follows the Iceberg spec, "Table Metadata" and "File System Tables": the commit is the creation of
`v<n+1>.metadata.json`, in which one writer succeeds; `version-hint.text` is a pointer that may be late. The
metadata has one snapshot, the latest: earlier ones name base files that cleans delete. What readers of the
last publications may still have open stays. It lies below `.hoodie`, where Hudi does not look for files of
the table.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from hudisql.errors import CorruptTableError, NoSuchPathError, StorageError, UnsupportedTableError
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.iceberg.data_file import Footer, metrics, single_value
from hudisql.iceberg.earlier_manifests import EarlierManifests, read_earlier_manifests
from hudisql.iceberg.iceberg_schema import assign_ids, iceberg_fields, name_mapping, primitive_name
from hudisql.iceberg.manifest_files import (
    ADDED,
    FORMAT_VERSION,
    PartitionField,
    added_entry,
    write_manifest,
    write_manifest_list,
)
from hudisql.iceberg.published_files import PublishedFile, TableFiles, read_footers, table_files
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable

_IDS: Final = "hudisql.column-ids"
_INSTANT: Final = "hudi.instant"
_STATE: Final = "hudi.state"
_ROWS: Final = "total-records"
_DROPPED: Final = "hudisql.dropped-manifests"
_FIRST_PARTITION_FIELD: Final = 1000
_ENTRIES_OF_A_MANIFEST: Final = 250
_LEAST_ENTRIES: Final = 100
_KEPT_PUBLICATIONS: Final = 10
_METADATA_FILE: Final = re.compile(r"v(\d+)\.metadata\.json")
_SNAPSHOT_FILE: Final = re.compile(r"(?:snap-)?(\d+)-v(\d+)(?:-m\d+)?\.avro")
_EPOCH_ORDINAL: Final = 719_163  # date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Publication:
    """The Iceberg table after a publication; `is_new` is False if it had this state already."""

    metadata_path: str
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
    last = _latest_metadata(table)
    files = table_files(table)
    sources = sum(file.is_source for file in files.files)
    bases = len(files.files) - sources
    snapshot_id = int(files.digest[:15], 16)
    if last.document is not None and last.document["current-snapshot-id"] == snapshot_id:
        if not dry_run:
            _write_hint(table, last.version)
        rows = int(last.summary[_ROWS])
        uri = reader_uri(table, _metadata_path(table, last.version))
        return Publication(uri, files.instant, sources, bases, rows, is_new=False)
    earlier = _earlier_manifests(table, last, files)
    known = earlier.files
    new = tuple(file for file in files.files if reader_uri(table, file.path) not in known)
    footers = read_footers(table, new)
    rows = earlier.rows + sum(footer.metadata.num_rows for footer in footers)
    snapshot = _Snapshot(files, new, footers, earlier, snapshot_id, last.version + 1, rows)
    if not dry_run:
        _write(table, snapshot, last)
        _write_hint(table, snapshot.version)
    uri = reader_uri(table, _metadata_path(table, snapshot.version))
    return Publication(uri, files.instant, sources, bases, rows, is_new=True)


def reader_uri(table: HudiTable, path: str) -> str:
    """The path as Iceberg readers open it: `file:/…`, `s3://…`, `hdfs://…`."""
    return re.sub(r"^s3[an]://", "s3://", table.storage.hadoop_uri(path))


def _metadata_directory(table: HudiTable) -> str:
    return join(iceberg_location(table), "metadata")


def _metadata_path(table: HudiTable, version: int) -> str:
    return join(_metadata_directory(table), f"v{version}.metadata.json")


@dataclass(frozen=True)
class _LastMetadata:
    """The newest metadata and its version, 0 and None if there is none; `names` are all metadata files."""

    version: int = 0
    document: dict[str, Any] | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    names: Sequence[str] = ()


def _latest_metadata(table: HudiTable) -> _LastMetadata:
    """The newest metadata, whatever the hint says."""
    names: list[str] = []
    with suppress(NoSuchPathError):
        names = table.storage.list_file_names(_metadata_directory(table))
    documents = [name for name in names if name.endswith(".metadata.json")]
    foreign = [name for name in documents if not _METADATA_FILE.fullmatch(name)]
    versions = [int(matched[1]) for name in names if (matched := _METADATA_FILE.fullmatch(name))]
    if foreign:
        raise _written_by_others(table, foreign[0])
    if not versions:
        return _LastMetadata(names=names)
    path = _metadata_path(table, max(versions))
    try:
        metadata: dict[str, Any] = json.loads(table.storage.read(path))
        current = metadata["current-snapshot-id"]
        summaries = {snapshot["snapshot-id"]: snapshot["summary"] for snapshot in metadata["snapshots"]}
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTableError(
            f"{path} is not the metadata of an Iceberg table: {error!r}",
            hint=f"delete the directory {iceberg_location(table)} and publish again",
        ) from error
    if _STATE not in summaries.get(current, {}):
        raise _written_by_others(table, path)
    return _LastMetadata(max(versions), metadata, summaries[current], names)


def _write_hint(table: HudiTable, version: int) -> None:
    table.storage.write(join(_metadata_directory(table), "version-hint.text"), str(version).encode())


def _earlier_manifests(table: HudiTable, last: _LastMetadata, files: TableFiles) -> EarlierManifests:
    """What is kept of the last publication; no file, if the columns have changed since."""
    if last.document is None:
        return EarlierManifests()
    ids = assign_ids(json.loads(last.document["properties"][_IDS]), [table.schema])
    fields = iceberg_fields(table.schema, ids)
    schemas = {schema["schema-id"]: schema["fields"] for schema in last.document["schemas"]}
    is_same = schemas[last.document["current-schema-id"]] == fields
    lengths = {reader_uri(table, file.path): file.length for file in files.files} if is_same else {}
    [current] = last.document["snapshots"]
    list_name = current["manifest-list"].rsplit("/", 1)[-1]
    return read_earlier_manifests(
        table.storage, _metadata_directory(table), list_name, lengths, _LEAST_ENTRIES
    )


def _written_by_others(table: HudiTable, name: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"another engine has written to the Iceberg table of {table.base_path} ({name}): its rows are not in "
        "the Hudi table",
        hint=f"read what it wrote if you need it, then delete the directory {iceberg_location(table)} and "
        "publish again",
    )


@dataclass(frozen=True)
class _Snapshot:
    """What one publication writes; `version` is that of its metadata file, `footers` are those of `new`."""

    files: TableFiles
    new: Sequence[PublishedFile]
    footers: Sequence[Footer]
    earlier: EarlierManifests
    snapshot_id: int
    version: int
    rows: int

    @property
    def start(self) -> str:
        """The beginning of the names of its files."""
        return f"{self.snapshot_id}-v{self.version}"


def _write(table: HudiTable, snapshot: _Snapshot, last: _LastMetadata) -> None:
    """Manifests, then their list, then the metadata, whose creation is the commit."""
    previous = last.document
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
    layout = (ids, schema, partition, (previous["last-sequence-number"] if previous else 0) + 1)
    list_path = _write_manifests(table, snapshot, layout)
    dropped = json.loads(previous["properties"].get(_DROPPED, "[]")) if previous else []
    dropped += [[snapshot.version, name] for name in snapshot.earlier.dropped]
    oldest = snapshot.version - _KEPT_PUBLICATIONS
    metadata = _metadata_document(table, snapshot, previous, layout, list_path)
    metadata["properties"][_DROPPED] = json.dumps([pair for pair in dropped if pair[0] > oldest])
    text = json.dumps(metadata, indent=1, ensure_ascii=False)
    table.storage.create(_metadata_path(table, snapshot.version), text.encode())
    outdated = {name for version, name in dropped if version <= oldest}
    outdated |= {name for name in last.names if _is_outdated(name, snapshot, oldest)}
    # Files that cannot be deleted are harmless: no metadata names them.
    with suppress(StorageError):
        table.storage.delete_files([join(_metadata_directory(table), name) for name in sorted(outdated)])


def _is_outdated(name: str, snapshot: _Snapshot, oldest: int) -> bool:
    """True for metadata and manifest lists up to version `oldest`, and for the files of a killed publication.

    A killed publication has the version of the one that succeeded, and another snapshot.
    """
    if matched := _METADATA_FILE.fullmatch(name):
        return int(matched[1]) <= oldest
    matched = _SNAPSHOT_FILE.fullmatch(name)
    if matched is None:
        return False
    if int(matched[2]) == snapshot.version:
        return int(matched[1]) != snapshot.snapshot_id
    return name.startswith("snap-") and int(matched[2]) <= oldest


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
    added = [
        added_entry(_data_file(table, file, footer, ids, partition), snapshot.snapshot_id)
        for file, footer in zip(snapshot.new, snapshot.footers, strict=True)
        if footer.metadata.num_rows
    ]
    entries = sorted([*snapshot.earlier.entries, *added], key=lambda entry: entry["data_file"]["file_path"])
    manifests = list(snapshot.earlier.manifests)
    for number, first in enumerate(range(0, len(entries), _ENTRIES_OF_A_MANIFEST)):
        some = entries[first : first + _ENTRIES_OF_A_MANIFEST]
        content = write_manifest(some, schema, partition)
        path = join(_metadata_directory(table), f"{snapshot.start}-m{number}.avro")
        table.storage.write(path, content)
        manifests.append(
            {
                "manifest_path": reader_uri(table, path),
                "manifest_length": len(content),
                "partition_spec_id": 0,
                "content": 0,
                "sequence_number": sequence,
                "min_sequence_number": min(entry["sequence_number"] or sequence for entry in some),
                "added_snapshot_id": snapshot.snapshot_id,
                **_manifest_counts(some),
                "partitions": _partition_summaries(some, partition),
            }
        )
    path = join(_metadata_directory(table), f"snap-{snapshot.start}.avro")
    table.storage.write(path, write_manifest_list(manifests, snapshot.snapshot_id, sequence))
    return reader_uri(table, path)


def _manifest_counts(entries: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    rows = [
        sum(entry["data_file"]["record_count"] for entry in entries if (entry["status"] == ADDED) is is_added)
        for is_added in (True, False)
    ]
    added = sum(entry["status"] == ADDED for entry in entries)
    files = {"added_files_count": added, "existing_files_count": len(entries) - added}
    counted = {"added_rows_count": rows[0], "existing_rows_count": rows[1]}
    return {**files, **counted, "deleted_files_count": 0, "deleted_rows_count": 0}


def _data_file(
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
    entries: Sequence[Mapping[str, Any]], partition: Sequence[PartitionField]
) -> list[dict[str, Any]]:
    """For each partition field whether values are null, and the least and greatest of them."""
    summaries = []
    for column in partition:
        values = [entry["data_file"]["partition"][column.name] for entry in entries]
        present: list[Any] = [value for value in values if value is not None]
        summary: dict[str, Any] = {"contains_null": len(present) < len(values), "contains_nan": False}
        summary |= {"lower_bound": None, "upper_bound": None}
        if present:
            summary["lower_bound"] = _partition_value(min(present), column.type)
            summary["upper_bound"] = _partition_value(max(present), column.type)
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
                    _ROWS: str(snapshot.rows),
                },
            }
        ],
        "snapshot-log": [{"snapshot-id": snapshot.snapshot_id, "timestamp-ms": now}],
        "metadata-log": [],
    }
