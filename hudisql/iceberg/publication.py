"""Publishes the state of a Hudi table as an Iceberg table, without a copy of the data.

Follows the Iceberg spec, "Table Metadata". Each publication is a snapshot, whose manifests are those of the
last one but for what the commits since have changed. The metadata lies below `.hoodie`, where Hudi does not
look for files of the table.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
from hudisql.iceberg.iceberg_schema import assign_ids, iceberg_fields, primitive_name
from hudisql.iceberg.manifest_files import WITH_ROW_IDS, PartitionField
from hudisql.iceberg.manifest_tasks import NewManifest, write_in_tasks
from hudisql.iceberg.merged_slices import WrittenFile, merge_slices, slice_name_of
from hudisql.iceberg.metadata_files import (
    INSTANT,
    STATE,
    LastMetadata,
    latest_metadata,
    metadata_path,
    version_data_directory,
    write_hint,
)
from hudisql.iceberg.publication_tasks import TaskRunner
from hudisql.iceberg.published_files import (
    FileKind,
    LogSlice,
    PublishedFile,
    TableFiles,
    partitions_to_publish,
    read_checked_footers,
    table_files,
)
from hudisql.iceberg.published_state import (
    PublishedState,
    changed_partitions,
    state_of,
    tell_apart_by_values,
)
from hudisql.iceberg.registered_files import registered_files
from hudisql.iceberg.snapshot_manifests import (
    Layout,
    SnapshotNumbers,
    data_file_of,
    is_small,
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
from hudisql.iceberg.snapshot_write import FIRST_PARTITION_FIELD, Snapshot, write_snapshot
from hudisql.read.merge.merge_mode import LogMergeConfig
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, partition_of


@dataclass(frozen=True)
class _Limit:
    """The most that a publication looks at: changed partitions, source and base files in them, and bytes of
    slices that it merges.
    """

    partitions: int
    files: int
    merged_bytes: int


@dataclass(frozen=True)
class _Look:
    """The partitions that a publication looks at, None for all; and whether the files of register-only ones
    are those of the last publication, if they have its paths and lengths.
    """

    partitions: Sequence[TablePartition] | None
    registered_are_same: bool

    @property
    def values(self) -> frozenset[PartitionValues] | None:
        """The values of the partitions, None for all."""
        if self.partitions is None:
            return None
        return frozenset(partition.values for partition in self.partitions)


_SHORT: Final = _Limit(partitions=16, files=1_000, merged_bytes=64 << 20)


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
    is_just_committed: bool = False,
) -> Publication:
    """Publish the state of the table; the caller holds its lock.

    `format_version` is 2 or 3, by default that of the last publication, or 2; a later version is one more
    snapshot, and there is no way back.

    Only partitions that commits have changed since the last publication are looked at, if the timeline names
    these commits, and register-only ones, but not for a table that is just committed. A dry run looks at all,
    and writes nothing. With `tasks` many new files are looked at there, and many slices merged.

    Raises UnsupportedTableError for states that Iceberg readers would misread and if another engine has
    written to the Iceberg table, SourceChangedError, CorruptTableError, StorageError.
    """
    try:
        published = _publish_next(table, format_version, tasks, dry_run, is_just_committed)
    except PathExistsError:
        # Without a lock another process may publish at the same time, by a newer or an older state.
        now = table.reopened().listed_once()
        published = _publish_next(now, format_version, tasks, dry_run, is_just_committed)
    assert published is not None  # there is no limit
    return published


def publish_small_change(table: HudiTable) -> Publication | None:
    """`publish`, if that is short: None for a first publication, for changes of more than a few partitions,
    files or log files, and if another process publishes at the same time.

    So a commit's lock can be held meanwhile. Raises the errors of `publish`.
    """
    with suppress(PathExistsError):
        return _publish_next(table, None, None, False, True, _SHORT)
    return None


def _publish_next(
    table: HudiTable,
    wanted: int | None,
    tasks: TaskRunner | None,
    dry_run: bool,
    is_just_committed: bool,
    limit: _Limit | None = None,
) -> Publication | None:
    """`publish` behind the last metadata; None beyond the limit. Raises PathExistsError if another process
    was faster.
    """
    last, now = latest_metadata(table), state_of(table)
    format_version = _format_version(table, last, wanted)
    changed = None if dry_run or last.state is None else changed_partitions(table, last.state, now)
    registered = registered_files(
        table, last.state, is_whole=changed is None, are_listed=not is_just_committed
    )
    now = replace(now, registered=registered.file_sum)
    is_same = last.state is not None and now.is_in(last.state)
    is_upgrade = last.document is not None and format_version != last.format_version
    if changed is not None and is_same and not is_upgrade:
        write_hint(table, last.version)
        return _publication(table, last.version, last.summary, is_new=False)
    paths = None if changed is None else sorted(changed | registered.partitions)
    partitions = None if paths is None else [partition_of(table, path) for path in paths]
    if partitions is None or not tell_apart_by_values(table, partitions):
        partitions = None
    if limit is not None and (partitions is None or is_upgrade or len(partitions) > limit.partitions):
        return None
    if partitions is None and not tell_apart_by_values(table, partitions_to_publish(table)):
        now = now.of_same_values()
    look = _Look(partitions, registered.are_same)
    snapshot = _plan_snapshot(table, last, now, look, format_version, tasks, limit, dry_run=dry_run)
    if snapshot is None:
        return None
    if not snapshot.is_new and not is_upgrade:
        if not dry_run:
            write_hint(table, last.version)
        return _publication(table, last.version, last.summary, is_new=False)
    if not dry_run:
        is_next = last.state is not None and len(set(now.completed) - set(last.state.completed)) == 1
        write_snapshot(table, snapshot, last, now, follows_failure=limit is None or not is_next)
    return _publication(table, snapshot.numbers.version, snapshot.summary, is_new=True)


def _format_version(table: HudiTable, last: LastMetadata, wanted: int | None) -> int:
    """The format version of the next publication. Raises UnsupportedTableError if it is before the last's."""
    version = last.format_version
    if last.document is None:
        return version if wanted is None else wanted
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


def _plan_snapshot(
    table: HudiTable,
    last: LastMetadata,
    now: PublishedState,
    look: _Look,
    format_version: int,
    tasks: TaskRunner | None,
    limit: _Limit | None,
    *,
    dry_run: bool,
) -> Snapshot | None:
    """The snapshot, in which only what is looked at may have changed; None beyond the limit.

    The files of slices with log files and the manifests of tasks are written, but for a dry run.
    """
    partitions = look.partitions
    files = table_files(table, partitions)
    if limit is not None and len(files.files) > limit.files:
        return None
    earlier = _earlier_manifests(table, last, files, look)
    kept = [entry["data_file"] for manifest in earlier for entry in manifest.kept]
    known = {data_file["file_path"] for data_file in kept}
    new = [file for file in files.files if reader_uri(table, file.path) not in known]
    merged = {slice_name_of(path) for path in known}
    log_slices = [log_slice for log_slice in files.log_slices if log_slice.name not in merged]
    if limit is not None and sum(_length(log_slice) for log_slice in log_slices) > limit.merged_bytes:
        return None
    numbers, digest = _numbers(table, last, now, format_version)
    gone = [entry["data_file"] for manifest in earlier for entry in manifest.removed]
    ready: list[NewManifest] = []
    is_large = len(new) > manifest_tasks.FILES_OF_ONE_PROCESS
    if tasks is not None and is_large and not _keep_row_ids(table, new, gone, numbers):
        ready = write_in_tasks(tasks, table, new, numbers, _layout(table, last, []), dry_run=dry_run)
    added = [] if ready else [*map(WrittenFile, new, read_checked_footers(table, new))]
    added += _merged(table, log_slices, files.log_merge_config, numbers, tasks, dry_run=dry_run)
    schemas = [
        written.footer.schema
        for written in added
        if written.footer is not None and written.file.kind is not FileKind.DELETES
    ]
    layout = _layout(table, last, [*schemas, *(schema for manifest in ready for schema in manifest.schemas)])
    data_files = [
        data_file_of(table, written.file, written.footer, layout) for written in added if written.rows
    ]
    counted = [*kept, *data_files] if partitions is None else data_files
    removed, before = ([], {}) if partitions is None else (gone, last.summary)
    totals = with_totals(totals_of(table, before, counted, removed), [manifest.totals for manifest in ready])
    return Snapshot(
        numbers,
        layout,
        earlier,
        data_files,
        {INSTANT: now.instant, STATE: digest, **totals},
        [written.file.path.rpartition("/")[2] for written in added],
        ready,
        [reader_uri(table, file.path) for file in new] if ready else [],
        last.document is None
        or bool(data_files or gone or any(manifest.record is not None for manifest in ready))
        or now.instant != last.summary[INSTANT]
        or last.state is None
        or not now.is_in(last.state)
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
    log_slices: Sequence[LogSlice],
    config: LogMergeConfig | None,
    numbers: SnapshotNumbers,
    tasks: TaskRunner | None,
    *,
    dry_run: bool,
) -> list[WrittenFile]:
    """The files of the slices with log files that are not published yet."""
    if not log_slices:
        return []
    assert config is not None  # there are log files
    return merge_slices(
        tasks,
        table,
        log_slices,
        config,
        version_data_directory(table, numbers.version),
        has_vectors=numbers.format_version == WITH_ROW_IDS,
        dry_run=dry_run,
    )


def _length(log_slice: LogSlice) -> int:
    """The bytes that its merge reads, at most."""
    base = 0 if log_slice.file is None else log_slice.file.length
    return base + sum(file.length for file in log_slice.file_slice.log_files)


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
    table: HudiTable, last: LastMetadata, files: TableFiles, look: _Look
) -> list[EarlierManifest]:
    """What is kept of the last publication; no file, if the columns have changed since."""
    if last.document is None:
        return []
    chosen = look.values
    columns = partition_fields(table, last.ids)

    def is_chosen(record: Mapping[str, Any]) -> bool:
        return chosen is None or is_small(record) or may_have_files_of(record, chosen, columns)

    return read_earlier_manifests(
        table.storage,
        metadata_directory(table),
        manifest_list_name(last.snapshots[-1]),
        is_chosen,
        _stays(table, last, files, look),
    )


def _stays(
    table: HudiTable, last: LastMetadata, files: TableFiles, look: _Look
) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a data file of the last publication is in the new state, too."""
    assert last.document is not None  # the caller has looked
    fields = iceberg_fields(table.schema, assign_ids(last.ids, [table.schema]))
    schemas = {schema["schema-id"]: schema["fields"] for schema in last.document["schemas"]}
    is_same = schemas[last.document["current-schema-id"]] == fields
    lengths = {
        reader_uri(table, file.path): file.length
        for file in files.files
        if look.registered_are_same or file.kind is not FileKind.REGISTERED
    }
    chosen, slices = look.values, {log_slice.name for log_slice in files.log_slices}
    own, names = (
        reader_uri(table, data_directory(table)) + "/",
        [partition_column.name for partition_column in table.partition_columns],
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
            FIRST_PARTITION_FIELD + place,
            primitive_name(column.type) or "string",
        )
        for place, column in enumerate(table.partition_columns)
    ]


def _schema_document(fields: list[dict[str, Any]], previous: Mapping[str, Any] | None) -> dict[str, Any]:
    """The schema with these fields: one of the previous metadata's, or a new one."""
    schemas = previous["schemas"] if previous else []
    for schema in schemas:
        if schema["fields"] == fields:
            return dict(schema)
    return {"type": "struct", "schema-id": len(schemas), "fields": fields}
