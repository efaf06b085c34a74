"""Compactions of a kept metadata table: the base file and the log files of a file group become a base file.

Follows `HoodieBackedTableMetadataWriter.compactIfNecessary` of Hudi 1.2, which compacts all file groups after
ten deltacommits. Here they are compacted when their log files are large beside their base files, so that a
small commit does not rewrite the statistics of a large table. Never some of them alone: Hudi archives what is
older than the last compaction, and its readers skip blocks in log files whose instants are archived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from hudisql.errors import StorageError, UnsupportedTableError
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS
from hudisql.format.paths.file_names import HFILE
from hudisql.format.timeline.commit_metadata import CommitMetadata, WriteStat
from hudisql.format.timeline.compaction_plan_avro import render_compaction_plan
from hudisql.format.timeline.instant import COMMIT, COMPACTION, DELTA_COMMIT, Instant, InstantState
from hudisql.storage import join
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.table.metadata_table.merged_records import merged_group
from hudisql.table.metadata_table.metadata_table import (
    STATISTICS_INSTANT,
    MetadataTable,
    readable_metadata_table,
)
from hudisql.table.properties.table_configuration import (
    names_metadata_table,
    record_statistics,
    update_table_properties,
)
from hudisql.table.slicing.completion_slicing import completion_slicing
from hudisql.table.slicing.file_groups import FileGroupVersions, group_files
from hudisql.write.metadata_table.deltacommit_files import (
    complete_in_metadata_table,
    delete_index_files,
    next_time,
    write_base_file,
)
from hudisql.write.metadata_table.statistics_changes import settle_statistics
from hudisql.write.metadata_table.unkept_metadata_table import drop_unless_kept

LEAST_DELTA_COMMITS = 10
"""Hudi's default of `hoodie.metadata.compact.max.delta.commits`."""
_MOST_LOG_FILES: Final = 30
_BASE_BYTES_PER_LOG_BYTE: Final = 4
_OPERATION_TYPE: Final = "COMPACT"
_COMPACTION_SUFFIX: Final = "001"
_KEPT_BASE_FILES: Final = 2
"""Of the file groups: readers that have opened the one before the last still find it."""


def _compact(metadata: MetadataTable) -> None:
    """Compact all file groups that have log files, if it is worth it.

    Not before ten deltacommits, nor while an action of the table is pending that the metadata table has
    completed.
    """
    if not _has_enough(metadata):
        return
    chosen = [
        (index, file_slice)
        for index in metadata.indexes
        for file_slice in metadata.latest_slices(index)
        if file_slice.log_length > 0
    ]
    if not chosen or not _is_worth_it(metadata, [file_slice for _, file_slice in chosen]):
        return
    inflight = _begin(metadata, _plan([file_slice for _, file_slice in chosen]))
    stats: dict[str, list[WriteStat]] = {index: [] for index, _ in chosen}
    try:
        for index, file_slice in chosen:
            stats[index].append(_compact_group(metadata, index, file_slice, inflight.timestamp))
    except UnsupportedTableError:
        _undo_compaction(metadata, inflight)
        return
    except Exception:
        with suppress(StorageError):
            _undo_compaction(metadata, inflight)
        raise
    commit = CommitMetadata(
        partition_to_write_stats={index: tuple(found) for index, found in stats.items()},
        compacted=True,
        operation_type=_OPERATION_TYPE,
    )
    complete_in_metadata_table(metadata, replace(inflight, action=COMMIT), commit)
    _delete_old_files(metadata.table, sorted(stats))


def _compact_group(
    metadata: MetadataTable, index: str, file_slice: FileSlice, instant_time: str
) -> WriteStat:
    """Write the base file of one file group. Raises as `merged_group`."""
    records = merged_group(metadata, index, file_slice)
    storage, base_path = metadata.own.storage, metadata.own.base_path
    return write_base_file(storage, base_path, index, file_slice.file_id, instant_time, records)


def prepare_metadata_table(table: HudiTable) -> bool:
    """Make the metadata table ready for a write: drop what is not kept of it, and compact one that is.

    Called under the table's lock. True if something was dropped. Raises UnsupportedTableError while another
    writer may be active on a table where something is to be dropped, CorruptTableError, StorageError.
    """
    metadata, is_dropped = keep_or_drop(table)
    if metadata is not None:
        _compact(metadata)
    return is_dropped


def keep_or_drop(table: HudiTable) -> tuple[MetadataTable | None, bool]:
    """The metadata table if all of it is kept, else None and whether it, or some indexes of it, was dropped.

    Raises as `prepare_metadata_table`.
    """
    metadata = find_kept(table)
    if metadata is None and names_metadata_table(table):
        _undo_interrupted_compactions(table)
        metadata = find_kept(table)
    if metadata is None:
        return None, drop_unless_kept(table)
    record_statistics(table, are_right=COLUMN_STATS in metadata.indexes)
    settle_statistics(metadata)
    if (instant_time := metadata.unrecorded_index) is not None:
        storage, base_path = metadata.own.storage, metadata.own.base_path
        update_table_properties(storage, base_path, {STATISTICS_INSTANT: instant_time})
    return metadata, False


def _undo_interrupted_compactions(table: HudiTable) -> None:
    """Remove the files of compactions of the metadata table whose process was killed.

    Nothing is done while another writer of the table is active: it may be running them.
    """
    if any(instant.state is InstantState.INFLIGHT for instant in table.timeline.pending):
        return
    metadata = readable_metadata_table(table)
    if metadata is None:
        return
    for pending in metadata.own.timeline.pending:
        if pending.action == COMPACTION:
            _undo_compaction(metadata, pending)


def _undo_compaction(metadata: MetadataTable, pending: Instant) -> None:
    ending = f"_{pending.timestamp}.{HFILE}"
    delete_index_files(metadata, lambda name: name.endswith(ending))
    for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
        metadata.own.storage.delete_file(metadata.own.instant_path(pending.in_state(state)))


def _has_enough(metadata: MetadataTable) -> bool:
    timeline, is_v2 = metadata.own.timeline, metadata.own.timeline.layout.has_completion_times
    deltas = [instant for instant in timeline.completed if instant.action == DELTA_COMMIT]
    pending = {instant.timestamp for instant in metadata.table.timeline.pending}
    if any(delta.timestamp in pending for delta in deltas):
        return False
    if not is_v2 and any(delta.timestamp > min(pending, default=delta.timestamp) for delta in deltas):
        # Its log files would be put on the new base file.
        return False
    times = [_time_of(instant) for instant in timeline.completed if instant.action == COMMIT]
    return sum(_time_of(delta) > max(times, default="") for delta in deltas) >= LEAST_DELTA_COMMITS


def _time_of(instant: Instant) -> str:
    """The time that orders deltacommits and compactions: of the completion, if it is known."""
    return instant.completion_time or instant.timestamp


def _is_worth_it(metadata: MetadataTable, slices: Sequence[FileSlice]) -> bool:
    if not metadata.own.timeline.layout.has_completion_times:
        # Hudi 0.15 archives instants of the table, without which log blocks do not count, after a compaction.
        return True
    log_bytes = sum(file_slice.log_length for file_slice in slices)
    base_bytes = sum(file_slice.base_file.length for file_slice in slices if file_slice.base_file is not None)
    are_large = log_bytes * _BASE_BYTES_PER_LOG_BYTE >= base_bytes
    return are_large or any(len(file_slice.log_files) >= _MOST_LOG_FILES for file_slice in slices)


def _plan(slices: Sequence[FileSlice]) -> bytes:
    return render_compaction_plan(
        [
            {
                "baseInstantTime": file_slice.base_instant_time,
                "deltaFilePaths": [log_file.path.rpartition("/")[2] for log_file in file_slice.log_files],
                "dataFilePath": None
                if file_slice.base_file is None
                else file_slice.base_file.path.rpartition("/")[2],
                "fileId": file_slice.file_id,
                "partitionPath": file_slice.partition_path,
                "metrics": _metrics(file_slice),
                "bootstrapFilePath": None,
            }
            for file_slice in slices
        ]
    )


def _metrics(file_slice: FileSlice) -> dict[str, float]:
    """Hudi 1.2 cannot run a plan without them, which it does if this process is killed."""
    log_bytes = file_slice.log_length
    return {
        "TOTAL_LOG_FILES": float(len(file_slice.log_files)),
        "TOTAL_LOG_FILES_SIZE": float(log_bytes),
        "TOTAL_IO_READ_MB": float(file_slice.length >> 20),
        "TOTAL_IO_WRITE_MB": float(file_slice.length >> 20),
        "TOTAL_IO_MB": float(file_slice.length >> 19),
    }


def _begin(metadata: MetadataTable, plan: bytes) -> Instant:
    """Put the compaction on the metadata table's timeline, before its files are there.

    Hudi 1.2 does not read log files beside a newer base file that belongs to no instant.
    """
    own = metadata.own
    requested = Instant(_compaction_time(metadata), COMPACTION, InstantState.REQUESTED)
    inflight = requested.in_state(InstantState.INFLIGHT)
    own.storage.create(own.instant_path(requested), plan)
    own.storage.create(own.instant_path(inflight), b"")
    return inflight


def _compaction_time(metadata: MetadataTable) -> str:
    """In layout 1 the last deltacommit's time with a suffix, by which Hudi 0.15 knows that it counts."""
    timeline = metadata.own.timeline
    if timeline.layout.has_completion_times:
        return next_time(metadata)
    last = max(instant.timestamp for instant in timeline.completed if instant.action == DELTA_COMMIT)
    return f"{last}{_COMPACTION_SUFFIX}"


def _delete_old_files(table: HudiTable, indexes: Sequence[str]) -> None:
    """Delete the files of slices before the last two of each file group."""
    metadata = find_kept(table)
    if metadata is None:
        return
    own = metadata.own
    for index in indexes:
        groups: Mapping[str, FileGroupVersions] = group_files(
            own.storage.list_directory(join(own.base_path, index)), HFILE
        )
        if own.timeline.layout.has_completion_times:
            groups = completion_slicing(own).slice_partition(index, groups)
        for versions in groups.values():
            bases = sorted(time for time, version in versions.items() if version.base_files)
            for time in [time for time in versions if len(bases) >= 2 and time < bases[-_KEPT_BASE_FILES]]:
                own.storage.delete_files(versions[time].paths)
