"""Writes a planned snapshot: its manifests, their list, and the metadata, whose creation is the commit.

Follows the Iceberg spec, "Table Metadata". Knows nothing of the Hudi table's files.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hudisql.iceberg.earlier_manifests import EarlierManifest
from hudisql.iceberg.iceberg_location import iceberg_location, reader_uri
from hudisql.iceberg.iceberg_schema import name_mapping
from hudisql.iceberg.manifest_tasks import NewManifest
from hudisql.iceberg.metadata_files import (
    CLEAN_PROPERTY,
    IDS_PROPERTY,
    STATE_PROPERTY,
    LastMetadata,
    commit_metadata,
)
from hudisql.iceberg.published_state import PublishedState
from hudisql.iceberg.recent_files import keep_content
from hudisql.iceberg.snapshot_history import delete_expired, history_of, kept_snapshots, latest_clean
from hudisql.iceberg.snapshot_manifests import Layout, SnapshotNumbers, write_manifests
from hudisql.table.hudi_table import HudiTable

FIRST_PARTITION_FIELD: Final = 1000
"""The id of the first partition field."""


@dataclass(frozen=True)
class Snapshot:
    """What one publication writes: `earlier` are the manifests of the last one, `added` are new files as
    manifests have them, `slice_files` the names of those that were written for slices. `ready` are the
    manifests of the new files `ready_paths`, if tasks have written them.
    """

    numbers: SnapshotNumbers
    layout: Layout
    earlier: Sequence[EarlierManifest]
    added: Sequence[Mapping[str, Any]]
    summary: Mapping[str, str]
    slice_files: Sequence[str]
    ready: Sequence[NewManifest]
    ready_paths: Sequence[str]
    is_new: bool


def write_snapshot(
    table: HudiTable, snapshot: Snapshot, last: LastMetadata, now: PublishedState, *, follows_failure: bool
) -> None:
    """Manifests, then their list, then the metadata, whose creation is the commit.

    `follows_failure`: a publication may have been killed after the last one, whose files go. Raises
    PathExistsError if another process was faster, StorageError.
    """
    contents, following = write_manifests(
        table,
        snapshot.numbers,
        snapshot.earlier,
        snapshot.added,
        snapshot.layout,
        [manifest.record for manifest in snapshot.ready],
        snapshot.ready_paths,
    )
    document = _metadata_document(table, snapshot, last, now, reader_uri(table, list(contents)[-1]))
    first_row_id = snapshot.numbers.first_row_id
    if first_row_id is not None:
        rows = {"first-row-id": first_row_id, "added-rows": following - first_row_id}
        document["snapshots"][-1] |= rows
        document["next-row-id"] = following
    commit_metadata(table, last, document, snapshot.slice_files if follows_failure else None)
    for path, content in contents.items():
        keep_content(path, content)
    snapshots = [*last.snapshots, document["snapshots"][-1]]
    delete_expired(table, snapshots, document["snapshots"])


def _metadata_document(
    table: HudiTable, snapshot: Snapshot, last: LastMetadata, now: PublishedState, list_path: str
) -> dict[str, Any]:
    """The metadata with this snapshot, and those before whose commits are on the active timeline."""
    numbers, layout, previous = snapshot.numbers, snapshot.layout, last.document
    ids, schema, sequence = layout.ids, layout.schema, numbers.sequence
    time_ms = time.time_ns() // 1_000_000
    if previous is not None:
        time_ms = max(time_ms, previous["last-updated-ms"] + 1)
    schemas = previous["schemas"] if previous else []
    if schema not in schemas:
        schemas = [*schemas, schema]
    spec = {"spec-id": 0, "fields": [field.document() for field in layout.partition]}
    entry = {
        "snapshot-id": numbers.snapshot_id,
        "sequence-number": sequence,
        "timestamp-ms": time_ms,
        "manifest-list": list_path,
        "schema-id": schema["schema-id"],
        "summary": {"operation": "overwrite", **snapshot.summary},
    }
    if numbers.parent_id is not None:
        entry["parent-snapshot-id"] = numbers.parent_id
    log = {"snapshot-id": numbers.snapshot_id, "timestamp-ms": time_ms}
    removed = [entry["data_file"]["file_path"] for manifest in snapshot.earlier for entry in manifest.removed]
    kept = kept_snapshots(table, last, removed, now.completed)
    history = {"snapshots": [], "snapshot-log": []} if previous is None else history_of(previous, kept)
    return {
        "format-version": numbers.format_version,
        "table-uuid": numbers.table_uuid,
        "location": reader_uri(table, iceberg_location(table)),
        "last-sequence-number": sequence,
        "last-updated-ms": time_ms,
        "last-column-id": max(ids.values()),
        "current-schema-id": schema["schema-id"],
        "schemas": schemas,
        "default-spec-id": 0,
        "partition-specs": [spec],
        "last-partition-id": FIRST_PARTITION_FIELD - 1 + len(layout.partition),
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {
            "gc.enabled": "false",
            "schema.name-mapping.default": json.dumps(name_mapping(ids)),
            IDS_PROPERTY: json.dumps(ids),
            STATE_PROPERTY: now.to_text(),
            CLEAN_PROPERTY: latest_clean(table),
        },
        "current-snapshot-id": numbers.snapshot_id,
        "refs": {"main": {"snapshot-id": numbers.snapshot_id, "type": "branch"}},
        "snapshots": [*history["snapshots"], entry],
        "snapshot-log": [*history["snapshot-log"], log],
    }
