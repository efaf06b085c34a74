"""Publishes the state of a Hudi table as an Iceberg table, without a copy of the data.

Follows the Iceberg spec, "Table Metadata". Each publication is a snapshot, whose manifests are those of the
last one but for what the commits since have changed. The metadata lies below `.hoodie`, where Hudi does not
look for files of the table.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from hudisql.errors import PathExistsError, UnsupportedTableError
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.iceberg import manifest_tasks
from hudisql.iceberg.earlier_manifests import (
    EarlierManifest,
    PartitionValues,
    manifest_list_name,
    may_have_files_of,
    read_earlier_manifests,
)
from hudisql.iceberg.iceberg_location import (
    data_directory,
    iceberg_location,
    metadata_directory,
    reader_uri,
)
from hudisql.iceberg.iceberg_schema import assign_ids, iceberg_fields, name_mapping, primitive_name
from hudisql.iceberg.manifest_files import FORMAT_VERSION, WITH_ROW_IDS, PartitionField
from hudisql.iceberg.manifest_tasks import NewManifest, write_in_tasks
from hudisql.iceberg.merged_slices import WrittenFile, merge_slices, slice_name_of
from hudisql.iceberg.metadata_files import (
    CLEAN_PROPERTY,
    IDS_PROPERTY,
    INSTANT,
    STATE,
    STATE_PROPERTY,
    LastMetadata,
    commit_metadata,
    latest_metadata,
    metadata_path,
    version_data_directory,
    write_hint,
)
from hudisql.iceberg.publication_tasks import TaskRunner
from hudisql.iceberg.published_files import (
    FileKind,
    PublishedFile,
    TableFiles,
    read_checked_footers,
    table_files,
)
from hudisql.iceberg.published_state import (
    PublishedState,
    changed_partitions,
    state_of,
    tell_apart_by_values,
)
from hudisql.iceberg.recent_files import keep_content
from hudisql.iceberg.snapshot_history import delete_expired, history_of, kept_snapshots, latest_clean
from hudisql.iceberg.snapshot_manifests import (
    Layout,
    SnapshotNumbers,
    data_file_of,
    is_small,
    write_manifests,
)
from hudisql.iceberg.snapshot_totals import (
    DATA_FILES,
    DELETE_FILES,
    DELETED_ROWS,
    LOG_ROW_FILES,
    ROWS,
    SOURCE_FILES,
    totals_of,
    with_totals,
)
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, list_partitions, partition_of

_FIRST_PARTITION_FIELD: Final = 1000


@dataclass(frozen=True)
class Publication:
    """The Iceberg table after a publication; `is_new` is False if it had this state already.

    `log_row_files` and `delete_files` are those of slices with log files; files without rows are left out.
    `rows` are what readers give.
    """

    metadata_path: str
    instant: str
    source_files: int
    base_files: int
    log_row_files: int
    delete_files: int
    rows: int
    is_new: bool


def publish(
    table: HudiTable,
    *,
    dry_run: bool = False,
    format_version: int | None = None,
    tasks: TaskRunner | None = None,
) -> Publication:
    """Publish the state of the table; the caller holds its lock.

    `format_version` is 2 or 3, by default that of the last publication, or 2; a later version is one more
    snapshot, and there is no way back.

    Only partitions that commits have changed since the last publication are looked at, if the timeline names
    these commits. A dry run looks at all, and writes nothing. With `tasks` many new files are looked at
    there, and many slices merged.

    Raises UnsupportedTableError for states that Iceberg readers would misread and if another engine has
    written to the Iceberg table, SourceChangedError, CorruptTableError, StorageError.
    """
    try:
        return _publish_next(table, format_version, tasks, dry_run=dry_run)
    except PathExistsError:
        # Without a lock another process may publish at the same time, by a newer or an older state.
        now = table.reopened().listed_once()
        return _publish_next(now, format_version, tasks, dry_run=dry_run)


def _publish_next(
    table: HudiTable, wanted: int | None, tasks: TaskRunner | None, *, dry_run: bool
) -> Publication:
    """`publish` behind the last metadata. Raises PathExistsError if another process was faster."""
    last, now = latest_metadata(table), state_of(table)
    is_same = last.state is not None and set(now.completed) <= set(last.state.completed)
    format_version = _format_version(table, last, wanted)
    changed = None if dry_run or last.state is None else changed_partitions(table, last.state, now)
    is_upgrade = last.document is not None and format_version != last.document["format-version"]
    if changed is not None and is_same and not is_upgrade:
        write_hint(table, last.version)
        return _publication(table, last.version, last.summary, is_new=False)
    partitions = None if changed is None else [partition_of(table, path) for path in sorted(changed)]
    if partitions is None or not tell_apart_by_values(table, partitions):
        partitions = None
        if not tell_apart_by_values(table, list_partitions(table)):
            now = now.of_same_values()
    snapshot = _plan_snapshot(table, last, now, partitions, format_version, tasks, dry_run=dry_run)
    if not snapshot.is_new and not is_upgrade:
        if not dry_run:
            write_hint(table, last.version)
        return _publication(table, last.version, last.summary, is_new=False)
    if not dry_run:
        _write(table, snapshot, last, now)
    return _publication(table, snapshot.numbers.version, snapshot.summary, is_new=True)


def _format_version(table: HudiTable, last: LastMetadata, wanted: int | None) -> int:
    """The format version of the next publication. Raises UnsupportedTableError if it is before the last's."""
    if last.document is None:
        return FORMAT_VERSION if wanted is None else wanted
    version = int(last.document["format-version"])
    if wanted is not None and wanted < version:
        raise UnsupportedTableError(
            f"the Iceberg table of {table.base_path} has format version {version}, which cannot become "
            f"{wanted}: Iceberg knows no way back",
            hint=f"delete the directory {iceberg_location(table)} and publish again, without the past "
            "snapshots",
        )
    return version if wanted is None else wanted


def _publication(table: HudiTable, version: int, summary: Mapping[str, str], *, is_new: bool) -> Publication:
    data, rows, deletes, deleted, sources, log_rows = (
        int(summary[name])
        for name in (DATA_FILES, ROWS, DELETE_FILES, DELETED_ROWS, SOURCE_FILES, LOG_ROW_FILES)
    )
    return Publication(
        reader_uri(table, metadata_path(table, version)),
        summary[INSTANT],
        sources,
        data - sources - log_rows,
        log_rows,
        deletes,
        rows - deleted,
        is_new,
    )


@dataclass(frozen=True)
class _Snapshot:
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


def _plan_snapshot(
    table: HudiTable,
    last: LastMetadata,
    now: PublishedState,
    partitions: Sequence[TablePartition] | None,
    format_version: int,
    tasks: TaskRunner | None,
    *,
    dry_run: bool,
) -> _Snapshot:
    """The snapshot, in which these partitions or all may have changed.

    The files of slices with log files and the manifests of tasks are written, but for a dry run.
    """
    files = table_files(table, partitions)
    earlier = _earlier_manifests(table, last, files, partitions)
    kept = [entry["data_file"] for manifest in earlier for entry in manifest.kept]
    known = {data_file["file_path"] for data_file in kept}
    new = [file for file in files.files if reader_uri(table, file.path) not in known]
    numbers, digest = _numbers(table, last, now, format_version)
    gone = [entry["data_file"] for manifest in earlier for entry in manifest.removed]
    ready: list[NewManifest] = []
    is_large = len(new) > manifest_tasks.FILES_OF_ONE_PROCESS
    if tasks is not None and is_large and not _keep_row_ids(table, new, gone, numbers):
        ready = write_in_tasks(tasks, table, new, numbers, _layout(table, last, []), dry_run=dry_run)
    added = [] if ready else [*map(WrittenFile, new, read_checked_footers(table, new))]
    added += _merged(table, files, known, numbers, tasks, dry_run=dry_run)
    schemas = [
        each.footer.schema
        for each in added
        if each.footer is not None and each.file.kind is not FileKind.DELETES
    ]
    layout = _layout(table, last, [*schemas, *(schema for each in ready for schema in each.schemas)])
    data_files = [data_file_of(table, each.file, each.footer, layout) for each in added if each.rows]
    counted = [*kept, *data_files] if partitions is None else data_files
    removed, before = ([], {}) if partitions is None else (gone, last.summary)
    totals = with_totals(totals_of(table, before, counted, removed), [each.totals for each in ready])
    return _Snapshot(
        numbers,
        layout,
        earlier,
        data_files,
        {INSTANT: now.instant, STATE: digest, **totals},
        [each.file.path.rpartition("/")[2] for each in added],
        ready,
        [reader_uri(table, file.path) for file in new] if ready else [],
        last.document is None
        or bool(data_files or gone or any(each.record is not None for each in ready))
        or now.instant != last.summary[INSTANT]
        or last.state is None
        or not set(now.completed) <= set(last.state.completed)
        or layout.schema["schema-id"] != last.document["current-schema-id"],
    )


def _numbers(
    table: HudiTable, last: LastMetadata, now: PublishedState, format_version: int
) -> tuple[SnapshotNumbers, str]:
    """The numbers of the snapshot, and the hash of its state.

    The id, and so the names of its files, are those of one Iceberg table alone: after its directory was
    deleted, another process may publish the same state in other files.
    """
    version = last.version + 1
    table_uuid = str(uuid.uuid4()) if last.document is None else last.document["table-uuid"]
    digest = _hash_of(f"{table.base_path} {version} {now.to_text()}")
    numbers = SnapshotNumbers(
        table_uuid,
        snapshot_id=int(_hash_of(f"{table_uuid} {format_version} {digest}")[:15], 16),
        parent_id=None if last.document is None else last.document["current-snapshot-id"],
        sequence=(last.document["last-sequence-number"] if last.document else 0) + 1,
        version=version,
        first_row_id=_next_row_id(last) if format_version == WITH_ROW_IDS else None,
    )
    return numbers, digest


def _hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _merged(
    table: HudiTable,
    files: TableFiles,
    known: Collection[str],
    numbers: SnapshotNumbers,
    tasks: TaskRunner | None,
    *,
    dry_run: bool,
) -> list[WrittenFile]:
    """The files of the slices with log files that no file is `known` of."""
    merged = {slice_name_of(path) for path in known}
    log_slices = [log_slice for log_slice in files.log_slices if log_slice.name not in merged]
    if not log_slices:
        return []
    assert files.log_merge_config is not None  # there are log files
    return merge_slices(
        tasks,
        table,
        log_slices,
        files.log_merge_config,
        version_data_directory(table, numbers.version),
        has_vectors=numbers.format_version == WITH_ROW_IDS,
        dry_run=dry_run,
    )


def _keep_row_ids(
    table: HudiTable,
    new: Iterable[PublishedFile],
    gone: Iterable[Mapping[str, Any]],
    numbers: SnapshotNumbers,
) -> bool:
    """True if some of the new files have row ids already, as after a change of columns."""
    if numbers.first_row_id is None:
        return False
    before = {data_file["file_path"] for data_file in gone}
    return any(reader_uri(table, file.path) in before for file in new)


def _next_row_id(last: LastMetadata) -> int:
    return 0 if last.document is None else int(last.document.get("next-row-id", 0))


def _earlier_manifests(
    table: HudiTable, last: LastMetadata, files: TableFiles, partitions: Sequence[TablePartition] | None
) -> list[EarlierManifest]:
    """What is kept of the last publication; no file, if the columns have changed since."""
    if last.document is None:
        return []
    chosen = None if partitions is None else frozenset(partition.values for partition in partitions)
    columns = partition_fields(table, last.ids)

    def is_chosen(record: Mapping[str, Any]) -> bool:
        return chosen is None or is_small(record) or may_have_files_of(record, chosen, columns)

    return read_earlier_manifests(
        table.storage,
        metadata_directory(table),
        manifest_list_name(last.snapshots[-1]),
        is_chosen,
        _stays(table, last, files, chosen),
    )


def _stays(
    table: HudiTable, last: LastMetadata, files: TableFiles, chosen: frozenset[PartitionValues] | None
) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a data file of the last publication is in the new state, too."""
    assert last.document is not None  # the caller has looked
    fields = iceberg_fields(table.schema, assign_ids(last.ids, [table.schema]))
    schemas = {schema["schema-id"]: schema["fields"] for schema in last.document["schemas"]}
    is_same = schemas[last.document["current-schema-id"]] == fields
    lengths = {reader_uri(table, file.path): file.length for file in files.files}
    slices = {log_slice.name for log_slice in files.log_slices}
    own, names = (
        reader_uri(table, data_directory(table)) + "/",
        [each.name for each in table.partition_columns],
    )

    def stays(data_file: Mapping[str, Any]) -> bool:
        if not is_same:
            return False
        if chosen is not None and tuple(data_file["partition"][name] for name in names) not in chosen:
            return True
        path = data_file["file_path"]
        if path.startswith(own):
            return slice_name_of(path) in slices
        return bool(lengths.get(path) == data_file["file_size_in_bytes"])

    return stays


def _layout(table: HudiTable, last: LastMetadata, schemas: Iterable[pa.Schema]) -> Layout:
    """Ids stay; the name mapping needs those of all columns of all files, which have these schemas."""
    ids = assign_ids(last.ids, [table.schema, META_SCHEMA, *schemas])
    schema = _schema_document(iceberg_fields(table.schema, ids), last.document)
    return Layout(ids, schema, partition_fields(table, ids))


def partition_fields(table: HudiTable, ids: Mapping[str, int]) -> list[PartitionField]:
    """The partition fields of the Iceberg table of a Hudi table whose columns have these ids."""
    return [
        PartitionField(
            column.name,
            ids[column.name],
            _FIRST_PARTITION_FIELD + place,
            primitive_name(column.type) or "string",
        )
        for place, column in enumerate(table.partition_columns)
    ]


def _write(table: HudiTable, snapshot: _Snapshot, last: LastMetadata, now: PublishedState) -> None:
    """Manifests, then their list, then the metadata, whose creation is the commit."""
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
    commit_metadata(table, last, document, snapshot.slice_files)
    for path, content in contents.items():
        keep_content(path, content)
    snapshots = [*last.snapshots, document["snapshots"][-1]]
    delete_expired(table, snapshots, document["snapshots"])


def _schema_document(fields: list[dict[str, Any]], previous: Mapping[str, Any] | None) -> dict[str, Any]:
    """The schema with these fields: one of the previous metadata's, or a new one."""
    schemas = previous["schemas"] if previous else []
    for schema in schemas:
        if schema["fields"] == fields:
            return dict(schema)
    return {"type": "struct", "schema-id": len(schemas), "fields": fields}


def _metadata_document(
    table: HudiTable, snapshot: _Snapshot, last: LastMetadata, now: PublishedState, list_path: str
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
        "last-partition-id": _FIRST_PARTITION_FIELD - 1 + len(layout.partition),
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
