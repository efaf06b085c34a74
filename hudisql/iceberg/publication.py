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
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from hudisql.errors import CorruptTableError, NoSuchPathError, StorageError, UnsupportedTableError
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.iceberg.data_file import Footer
from hudisql.iceberg.earlier_manifests import EarlierManifests, read_earlier_manifests
from hudisql.iceberg.iceberg_location import (
    data_directory,
    iceberg_location,
    metadata_directory,
    reader_uri,
)
from hudisql.iceberg.iceberg_schema import assign_ids, iceberg_fields, name_mapping, primitive_name
from hudisql.iceberg.manifest_files import DATA, FORMAT_VERSION, PartitionField
from hudisql.iceberg.merged_slices import (
    WrittenFile,
    files_of_slice,
    merge_slice,
    slice_file_names,
    written_lengths,
)
from hudisql.iceberg.published_files import (
    FileKind,
    PublishedFile,
    TableFiles,
    read_checked_footers,
    read_footers,
    table_files,
)
from hudisql.iceberg.snapshot_manifests import Layout, SnapshotNumbers, data_file_of, write_manifests
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable

_IDS: Final = "hudisql.column-ids"
_INSTANT: Final = "hudi.instant"
_STATE: Final = "hudi.state"
_ROWS: Final = "total-records"
_DELETED_ROWS: Final = "total-position-deletes"
_DELETE_FILES: Final = "total-delete-files"
_LOG_ROW_FILES: Final = "hudisql.log-row-files"
_DROPPED: Final = "hudisql.dropped-files"
_FIRST_PARTITION_FIELD: Final = 1000
_LEAST_ENTRIES: Final = 100
_KEPT_PUBLICATIONS: Final = 10
_METADATA_FILE: Final = re.compile(r"v(\d+)\.metadata\.json")
_SNAPSHOT_FILE: Final = re.compile(r"(?:snap-)?(\d+)-v(\d+)(?:-m\d+)?\.avro")


@dataclass(frozen=True)
class Publication:
    """The Iceberg table after a publication; `is_new` is False if it had this state already.

    `log_row_files` and `delete_files` are those of slices with log files; `rows` are what readers give.
    """

    metadata_path: str
    instant: str
    source_files: int
    base_files: int
    log_row_files: int
    delete_files: int
    rows: int
    is_new: bool


def publish(table: HudiTable, *, dry_run: bool = False) -> Publication:
    """Publish the state of the table; the caller holds its lock. A dry run checks everything, writes nothing.

    Raises UnsupportedTableError for states that Iceberg readers would misread and if another engine has
    written to the Iceberg table, SourceChangedError, CorruptTableError, StorageError.
    """
    last = _latest_metadata(table)
    files = table_files(table)
    snapshot_id = int(files.digest[:15], 16)
    if last.document is not None and last.document["current-snapshot-id"] == snapshot_id:
        if not dry_run:
            _write_hint(table, last.version)
        return _publication(table, files, last.version, last.summary, is_new=False)
    snapshot = _plan_snapshot(table, files, last, snapshot_id, dry_run=dry_run)
    if not dry_run:
        _write(table, snapshot, last)
        _write_hint(table, snapshot.numbers.version)
    return _publication(table, files, snapshot.numbers.version, snapshot.summary, is_new=True)


def _publication(
    table: HudiTable, files: TableFiles, version: int, summary: Mapping[str, str], *, is_new: bool
) -> Publication:
    kinds = Counter(file.kind for file in files.files)
    return Publication(
        reader_uri(table, _metadata_path(table, version)),
        files.instant,
        kinds[FileKind.SOURCE],
        kinds[FileKind.BASE],
        int(summary.get(_LOG_ROW_FILES, 0)),
        int(summary.get(_DELETE_FILES, 0)),
        int(summary[_ROWS]) - int(summary.get(_DELETED_ROWS, 0)),
        is_new,
    )


def _metadata_path(table: HudiTable, version: int) -> str:
    return join(metadata_directory(table), f"v{version}.metadata.json")


@dataclass(frozen=True)
class _LastMetadata:
    """The newest metadata and its version, 0 and None if there is none; `names` are all metadata files."""

    version: int = 0
    document: dict[str, Any] | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    names: Sequence[str] = ()

    @property
    def ids(self) -> Mapping[str, int]:
        """The ids of columns by their paths."""
        found: dict[str, int] = {} if self.document is None else json.loads(self.document["properties"][_IDS])
        return found


def _latest_metadata(table: HudiTable) -> _LastMetadata:
    """The newest metadata, whatever the hint says."""
    names: list[str] = []
    with suppress(NoSuchPathError):
        names = table.storage.list_file_names(metadata_directory(table))
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
    table.storage.write(join(metadata_directory(table), "version-hint.text"), str(version).encode())


def _plan_snapshot(
    table: HudiTable, files: TableFiles, last: _LastMetadata, snapshot_id: int, *, dry_run: bool
) -> _Snapshot:
    """The snapshot of these files. The files of slices with log files are written, but for a dry run."""
    present = written_lengths(table)
    by_slice = {each: files_of_slice(table, each, present) for each in files.log_slices}
    reused = [file for some in by_slice.values() if some is not None for file in some]
    earlier = _earlier_manifests(table, last, [*files.files, *reused])
    known = {data_file["file_path"] for data_file in earlier.data_files}
    new = [file for file in files.files if reader_uri(table, file.path) not in known]
    again = [file for file in reused if reader_uri(table, file.path) not in known]
    footers = [*read_checked_footers(table, new), *read_footers(table.storage, again)]
    added = [WrittenFile(file, footer) for file, footer in zip([*new, *again], footers, strict=True)]
    for log_slice, some in by_slice.items():
        if some is None:
            assert files.log_merge_config is not None  # there are log files
            added += merge_slice(table, log_slice, files.log_merge_config, dry_run=dry_run)
    layout = _layout(table, last, [each.footer for each in added if each.file.kind is not FileKind.DELETES])
    data_files = [
        data_file_of(table, each.file, each.footer, layout) for each in added if each.footer.metadata.num_rows
    ]
    names = {name for log_slice in by_slice for name in slice_file_names(log_slice)}
    sequence = (last.document["last-sequence-number"] if last.document else 0) + 1
    numbers = SnapshotNumbers(snapshot_id, sequence, last.version + 1)
    stale = sorted(present.keys() - names)
    summary = {_INSTANT: files.instant, _STATE: files.digest}
    summary |= _totals(table, [*earlier.data_files, *data_files])
    return _Snapshot(numbers, layout, earlier, data_files, summary, stale)


def _earlier_manifests(
    table: HudiTable, last: _LastMetadata, files: Iterable[PublishedFile]
) -> EarlierManifests:
    """What is kept of the last publication; no file, if the columns have changed since."""
    if last.document is None:
        return EarlierManifests()
    fields = iceberg_fields(table.schema, assign_ids(last.ids, [table.schema]))
    schemas = {schema["schema-id"]: schema["fields"] for schema in last.document["schemas"]}
    is_same = schemas[last.document["current-schema-id"]] == fields
    lengths = {reader_uri(table, file.path): file.length for file in files} if is_same else {}
    [current] = last.document["snapshots"]
    list_name = current["manifest-list"].rsplit("/", 1)[-1]
    return read_earlier_manifests(
        table.storage, metadata_directory(table), list_name, lengths, _LEAST_ENTRIES
    )


def _layout(table: HudiTable, last: _LastMetadata, footers: Iterable[Footer]) -> Layout:
    """Ids stay; the name mapping needs those of all columns of all files."""
    ids = assign_ids(last.ids, [table.schema, META_SCHEMA, *(footer.schema for footer in footers)])
    partition = [
        PartitionField(
            column.name,
            ids[column.name],
            _FIRST_PARTITION_FIELD + place,
            primitive_name(column.type) or "string",
        )
        for place, column in enumerate(table.partition_columns)
    ]
    return Layout(ids, _schema_document(iceberg_fields(table.schema, ids), last.document), partition)


def _totals(table: HudiTable, data_files: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The totals of the snapshot's summary (the spec's "Optional Snapshot Summary Fields")."""
    own = reader_uri(table, data_directory(table))
    data = [file for file in data_files if file["content"] == DATA]
    deletes = [file for file in data_files if file["content"] != DATA]
    counts = {
        "total-data-files": len(data),
        _DELETE_FILES: len(deletes),
        _ROWS: sum(file["record_count"] for file in data),
        _DELETED_ROWS: sum(file["record_count"] for file in deletes),
        "total-equality-deletes": 0,
        "total-files-size": sum(file["file_size_in_bytes"] for file in data_files),
        _LOG_ROW_FILES: sum(file["file_path"].startswith(f"{own}/") for file in data),
    }
    return {name: str(count) for name, count in counts.items()}


def _written_by_others(table: HudiTable, name: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"another engine has written to the Iceberg table of {table.base_path} ({name}): its rows are not in "
        "the Hudi table",
        hint=f"read what it wrote if you need it, then delete the directory {iceberg_location(table)} and "
        "publish again",
    )


@dataclass(frozen=True)
class _Snapshot:
    """What one publication writes: `earlier` is kept, `added` are new files as manifests have them. `stale`
    are the names of files of slices that are there and not of this snapshot.
    """

    numbers: SnapshotNumbers
    layout: Layout
    earlier: EarlierManifests
    added: Sequence[Mapping[str, Any]]
    summary: Mapping[str, str]
    stale: Sequence[str]


def _write(table: HudiTable, snapshot: _Snapshot, last: _LastMetadata) -> None:
    """Manifests, then their list, then the metadata, whose creation is the commit."""
    numbers = snapshot.numbers
    list_path = write_manifests(table, numbers, snapshot.earlier, snapshot.added, snapshot.layout)
    dropped = _dropped_files(snapshot, last)
    oldest = numbers.version - _KEPT_PUBLICATIONS
    metadata = _metadata_document(table, snapshot, last.document, list_path)
    kept = [[version, name] for name, version in dropped.items() if version > oldest]
    metadata["properties"][_DROPPED] = json.dumps(kept)
    text = json.dumps(metadata, indent=1, ensure_ascii=False)
    table.storage.create(_metadata_path(table, numbers.version), text.encode())
    outdated = {name for name, version in dropped.items() if version <= oldest}
    outdated |= {name for name in last.names if _is_outdated(name, numbers, oldest)}
    data = set(snapshot.stale)
    directories = {True: data_directory(table), False: metadata_directory(table)}
    # Files that cannot be deleted are harmless: no metadata names them.
    with suppress(StorageError):
        table.storage.delete_files([join(directories[name in data], name) for name in sorted(outdated)])


def _dropped_files(snapshot: _Snapshot, last: _LastMetadata) -> dict[str, int]:
    """For each manifest and file of slices that this snapshot is without: the last version that names it."""
    known: list[tuple[int, str]] = []
    if last.document is not None:
        known = json.loads(last.document["properties"].get(_DROPPED, "[]"))
    stale = set(snapshot.stale)
    # A file of a slice may come back, by a rollback.
    dropped = {name: version for version, name in known if name in stale or name.endswith(".avro")}
    for name in (*snapshot.earlier.dropped, *snapshot.stale):
        dropped.setdefault(name, snapshot.numbers.version - 1)
    return dropped


def _is_outdated(name: str, numbers: SnapshotNumbers, oldest: int) -> bool:
    """True for metadata and manifest lists up to version `oldest`, and for the files of a killed publication.

    A killed publication has the version of the one that succeeded, and another snapshot.
    """
    if matched := _METADATA_FILE.fullmatch(name):
        return int(matched[1]) <= oldest
    matched = _SNAPSHOT_FILE.fullmatch(name)
    if matched is None:
        return False
    if int(matched[2]) == numbers.version:
        return int(matched[1]) != numbers.snapshot_id
    return name.startswith("snap-") and int(matched[2]) <= oldest


def _schema_document(fields: list[dict[str, Any]], previous: Mapping[str, Any] | None) -> dict[str, Any]:
    """The schema with these fields: one of the previous metadata's, or a new one."""
    schemas = previous["schemas"] if previous else []
    for schema in schemas:
        if schema["fields"] == fields:
            return dict(schema)
    return {"type": "struct", "schema-id": len(schemas), "fields": fields}


def _metadata_document(
    table: HudiTable, snapshot: _Snapshot, previous: Mapping[str, Any] | None, list_path: str
) -> dict[str, Any]:
    numbers, layout = snapshot.numbers, snapshot.layout
    ids, schema, sequence = layout.ids, layout.schema, numbers.sequence
    now = time.time_ns() // 1_000_000
    if previous is not None:
        now = max(now, previous["last-updated-ms"] + 1)
    schemas = previous["schemas"] if previous else []
    if schema not in schemas:
        schemas = [*schemas, schema]
    spec = {"spec-id": 0, "fields": [field.document() for field in layout.partition]}
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
        "last-partition-id": _FIRST_PARTITION_FIELD - 1 + len(layout.partition),
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {
            "gc.enabled": "false",
            "schema.name-mapping.default": json.dumps(name_mapping(ids)),
            _IDS: json.dumps(ids),
        },
        "current-snapshot-id": numbers.snapshot_id,
        "refs": {"main": {"snapshot-id": numbers.snapshot_id, "type": "branch"}},
        "snapshots": [
            {
                "snapshot-id": numbers.snapshot_id,
                "sequence-number": sequence,
                "timestamp-ms": now,
                "manifest-list": list_path,
                "schema-id": schema["schema-id"],
                "summary": {"operation": "overwrite", **snapshot.summary},
            }
        ],
        "snapshot-log": [{"snapshot-id": numbers.snapshot_id, "timestamp-ms": now}],
        "metadata-log": [],
    }
