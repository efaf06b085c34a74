"""Deltacommits of a metadata table: what a commit or a clean of its table changes in the indexes.

Follows `HoodieBackedTableMetadataWriter.update` and `HoodieTableMetadataUtil.convertMetadataToRecords` of
Hudi 1.2: the deltacommit has the instant time of the table's action, and completes before it under the same
lock. Readers ignore it while that action is pending.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from hudisql.errors import CorruptTableError, UnsupportedTableError, WriteConflictError
from hudisql.format.hfile.hfile_cells import EncodedCells, cells_of
from hudisql.format.metadata_table.metadata_keys import (
    file_groups_of,
    file_key_part,
    key_parts,
    partition_key_part,
)
from hudisql.format.metadata_table.metadata_records import (
    ALL_PARTITIONS,
    COLUMN_STATS,
    FILES,
    NON_PARTITIONED,
    PARTITION_STATS,
    RECORD_INDEX,
)
from hudisql.format.metadata_table.metadata_writing import (
    ColumnRange,
    encode_file_list,
    encode_metadata_file,
    encode_partition_list,
    encode_range,
    metadata_blocks,
)
from hudisql.format.metadata_table.value_types import digest_of_types, is_measured
from hudisql.format.paths.file_names import (
    HFILE,
    is_log_file,
    parse_base_file_name,
    parse_log_file_name,
)
from hudisql.format.schema.avro_schema import arrow_from_avro
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.format.timeline.commit_metadata import NO_COMMIT, CommitMetadata, WriteStat
from hudisql.format.timeline.commit_metadata_avro import render_commit_metadata
from hudisql.format.timeline.instant import DELTA_COMMIT, Instant, InstantState, new_instant_time
from hudisql.read.merge.merge_mode import InstantRange, log_merge_config_of
from hudisql.storage import Storage, join
from hudisql.table.file_slice import BaseFile, FileSlice, LogFile
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.index_definitions import IndexDefinition, read_index_definitions
from hudisql.table.metadata_table.kept_metadata_table import (
    find_kept,
    has_kept_indexes,
)
from hudisql.table.metadata_table.metadata_table import MetadataTable, readable_metadata_table
from hudisql.table.partitions.listed_partitions import partition_of
from hudisql.table.properties.table_configuration import (
    drop_indexes,
    forget_metadata_table,
    names_metadata_table,
)
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.write.handle.log_file import write_log_file
from hudisql.write.metadata_table.column_ranges import (
    MeasuredFile,
    mergeable_range,
    merged_ranges,
)
from hudisql.write.metadata_table.key_changes import KeyChanges, index_changes, read_key_changes
from hudisql.write.metadata_table.measured_files import Measured, measure

_OPERATION_TYPE: Final = "UPSERT_PREPPED"
_WRITE_TOKEN: Final = "0-0-0"
# The record keys of a commit are held in memory until it completes, about 200 bytes each.
_MOST_NEW_KEYS: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """The new records of an index, and the keys (texts) that it loses."""

    records: EncodedCells = field(default_factory=lambda: cells_of({}))
    deleted: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))


IndexUpdates = Mapping[str, IndexUpdate]
"""The updates of the indexes by their names."""


@dataclass(frozen=True, slots=True)
class PreparedCommit:
    """What a commit changes in the indexes; of the record index the keys, to be compared with it later.

    Without `keys` a record index is dropped.
    """

    updates: IndexUpdates
    keys: KeyChanges | None = None


DROPPED: Final = PreparedCommit(MappingProxyType({}))
"""No updates: the metadata table is dropped with the commit, which changes the type of a measured column."""


def prepare_commit(table: HudiTable, commit: CommitMetadata, instant_time: str) -> PreparedCommit | None:
    """What the commit changes in a metadata table of the kept kind; None if the table has none.

    Reads the footers of the new files, and their rows where footers lack statistics; for a record index the
    record keys. Raises CorruptTableError, StorageError.
    """
    if not has_kept_indexes(table):
        return None
    indexes = table.properties.metadata_partitions
    written = {path: _named(stats) for path, stats in commit.partition_to_write_stats.items()}
    sizes = {path: _sizes(stats) for path, stats in written.items()}
    updates = {FILES: IndexUpdate(cells_of(file_records(sizes)))}
    definition = read_index_definitions(table).get(COLUMN_STATS)
    if definition is not None and commit.schema:
        written_types = digest_of_types(arrow_from_avro(commit.schema), definition.columns)
        if written_types != digest_of_types(table.schema, definition.columns):
            return DROPPED
    if COLUMN_STATS in indexes and definition is not None:
        fields = _measured_fields(table, commit, definition)
        files = {
            path: [_measured(table, path, stat, fields, instant_time) for stat in stats]
            for path, stats in written.items()
        }
        updates |= statistics_updates(measure(table, files), with_partitions=PARTITION_STATS in indexes)
    keys = None
    if RECORD_INDEX in indexes and _new_rows(commit) <= _MOST_NEW_KEYS:
        slices = [
            slice_of_file(table, path, _name(stat), stat.file_size_in_bytes)
            for path, stats in written.items()
            for stat in stats
        ]
        keys = read_key_changes(table, commit, instant_time, slices)
    return PreparedCommit(updates, keys)


def _new_rows(commit: CommitMetadata) -> int:
    """The rows that the commit puts into file groups: all of new ones and of log files, else the inserted."""
    return sum(
        stat.num_writes if stat.prev_commit == NO_COMMIT or is_log_file(stat.path or "") else stat.num_inserts
        for stat in commit.write_stats
    )


def write_commit(
    now: HudiTable, commit: CommitMetadata, instant_time: str, prepared: PreparedCommit | None
) -> bool:
    """Write the commit's updates to the metadata table before the commit completes, under its lock.

    False if the metadata table was dropped, or one of its indexes.

    `prepared` is that of `prepare_commit`; another writer may have made the metadata table meanwhile. Raises
    WriteConflictError if it is now one that is not kept, CorruptTableError, StorageError.
    """
    metadata = find_kept(now)
    if metadata is None:
        if names_metadata_table(now):
            raise WriteConflictError(
                f"another writer has made or changed the metadata table of {now.base_path}, and hudisql does "
                "not keep it in this form",
                hint="run the statement again, which drops it; the table's other writers make none with "
                "hoodie.metadata.enable=false",
            )
        return True
    if prepared is None:
        prepared = prepare_commit(now, commit, instant_time)
    if prepared is DROPPED:
        forget_metadata_table(now)
        return False
    if prepared is None:
        return True
    updates = {**prepared.updates, **_record_updates(metadata, prepared.keys, instant_time)}
    _write_deltacommit(metadata, instant_time, updates)
    return RECORD_INDEX not in metadata.indexes or RECORD_INDEX in updates


def _record_updates(metadata: MetadataTable, keys: KeyChanges | None, instant_time: str) -> IndexUpdates:
    """The update of the record index, which is dropped if it cannot be read or tell where all keys are."""
    if RECORD_INDEX not in metadata.indexes:
        return {}
    changes = None
    if keys is not None:
        with suppress(CorruptTableError, UnsupportedTableError):
            changes = index_changes(metadata, keys, instant_time)
    if changes is None:
        drop_indexes(metadata.table, {RECORD_INDEX})
        return {}
    return {RECORD_INDEX: IndexUpdate(*changes)}


def write_clean(
    table: HudiTable, instant_time: str, deleted: Mapping[str, Sequence[str]], emptied: Iterable[str]
) -> None:
    """Write what a clean changes to a kept metadata table before the clean completes, under its lock.

    `deleted` are the names of the deleted files by partition path, `emptied` the partitions that are gone.
    Raises StorageError.
    """
    metadata = find_kept(table)
    if metadata is None:
        return
    names = {_key(path): tuple(found) for path, found in deleted.items() if found}
    gone = [_key(path) for path in emptied]
    records = {key: encode_file_list({}, deleted=found) for key, found in names.items()}
    records[ALL_PARTITIONS] = encode_partition_list([], deleted=gone)
    updates = {FILES: IndexUpdate(cells_of(records))}
    definition = read_index_definitions(table).get(COLUMN_STATS)
    if COLUMN_STATS in metadata.indexes and definition is not None:
        columns = key_parts(definition.columns)
        keys = [
            f"{column}{partition_key_part(path)}{file_key_part(name)}"
            for path, found in deleted.items()
            for name in found
            for column in columns.values()
        ]
        updates[COLUMN_STATS] = IndexUpdate(deleted=pa.array(keys, pa.string()))
    _write_deltacommit(metadata, instant_time, updates)


def _named(stats: Iterable[WriteStat]) -> list[WriteStat]:
    return [stat for stat in stats if stat.path]


def _sizes(stats: Collection[WriteStat]) -> dict[str, int]:
    """The bytes of the files by name, change logs included."""
    sizes = {_name(stat): stat.file_size_in_bytes for stat in stats}
    logs = {path: size for stat in stats for path, size in (stat.cdc_stats or {}).items()}
    return sizes | {path.rpartition("/")[2]: size for path, size in logs.items()}


def _name(stat: WriteStat) -> str:
    assert stat.path is not None  # of `_named`
    return stat.path.rpartition("/")[2]


def _key(path: str) -> str:
    return path or NON_PARTITIONED


def file_records(sizes: Mapping[str, Mapping[str, int]]) -> dict[str, bytes]:
    """The records of `files` for new files by partition path."""
    records = {_key(path): encode_file_list(found) for path, found in sizes.items() if found}
    return {ALL_PARTITIONS: encode_partition_list([_key(path) for path in sizes]), **records}


def _measured_fields(
    table: HudiTable, commit: CommitMetadata, definition: IndexDefinition
) -> tuple[pa.Field, ...]:
    """The columns of the index as this commit writes them."""
    schema = arrow_from_avro(commit.schema) if commit.schema else table.schema
    types = {each.name: each for each in (*META_SCHEMA, *schema)}
    found = [types[name] for name in definition.columns if name in types]
    return tuple(each for each in found if is_measured(each.type))


def _measured(
    table: HudiTable, path: str, stat: WriteStat, fields: tuple[pa.Field, ...], instant_time: str
) -> MeasuredFile:
    file_slice = slice_of_file(table, path, _name(stat), stat.file_size_in_bytes)
    config = None
    if file_slice.base_file is None:
        only = InstantRange(frozenset(), None, only=frozenset({instant_time}))
        config = replace(log_merge_config_of(table), instant_range=only)
    return MeasuredFile(
        _name(stat), file_slice, fields, partition_values(table, path), log_merge_config=config
    )


def partition_values(table: HudiTable, path: str) -> dict[str, object]:
    """The values of the partition columns that the path gives."""
    values = partition_of(table, path).values
    return {
        partition_column.name: value
        for partition_column, value in zip(table.partition_columns, values, strict=True)
    }


def slice_of_file(table: HudiTable, path: str, name: str, length: int) -> FileSlice:
    """A slice of one base file or log file alone."""
    whole = join(table.base_path, path, name)
    base = parse_base_file_name(name)
    if base is not None:
        file = BaseFile(whole, length, base.file_id, base.write_token, base.instant_time)
        return FileSlice(path, base.file_id, base.instant_time, file)
    log = parse_log_file_name(name)
    assert log is not None  # a commit writes base files and log files
    log_file = LogFile(whole, length, log.file_id, log.base_instant_time, log.version, log.write_token or "")
    return FileSlice(path, log.file_id, log.base_instant_time, None, (log_file,))


def statistics_updates(measured: Measured, *, with_partitions: bool) -> dict[str, IndexUpdate]:
    """The records of both indexes of statistics."""
    of_files: dict[str, bytes] = {}
    of_partitions: dict[str, bytes] = {}
    names = {each.column for found in measured.values() for _, ranges in found for each in ranges}
    columns = key_parts(sorted(names))
    for path, found in measured.items():
        partition = partition_key_part(path)
        by_column: dict[str, list[ColumnRange]] = defaultdict(list)
        for name, ranges in found:
            file = file_key_part(name)
            for column_range in ranges:
                of_files[f"{columns[column_range.column]}{partition}{file}"] = encode_range(
                    column_range, name
                )
                by_column[column_range.column].append(column_range)
        for column, ranges in by_column.items():
            key = f"{columns[column]}{partition}"
            merged = mergeable_range(merged_ranges(ranges))
            of_partitions[key] = encode_range(merged, path, of_partition=True)
    updates = {COLUMN_STATS: IndexUpdate(cells_of(of_files))}
    if with_partitions:
        updates[PARTITION_STATS] = IndexUpdate(cells_of(of_partitions))
    return updates


def _write_deltacommit(metadata: MetadataTable, instant_time: str, updates: IndexUpdates) -> None:
    """Write the updates of the table's action with this instant time, under the caller's lock.

    An earlier attempt of the same action is undone first.
    """
    if _has_instant(metadata, instant_time):
        _undo(metadata, instant_time)
    own = metadata.own
    requested = Instant(instant_time, DELTA_COMMIT, InstantState.REQUESTED)
    inflight = requested.in_state(InstantState.INFLIGHT)
    for instant in (requested, inflight):
        own.storage.create(own.instant_path(instant), b"")
    stats = {
        index: tuple(_write_index(metadata, index, instant_time, update))
        for index, update in updates.items()
        if len(update.records) or len(update.deleted)
    }
    complete_in_metadata_table(
        metadata, inflight, CommitMetadata(partition_to_write_stats=stats, operation_type=_OPERATION_TYPE)
    )


def complete_in_metadata_table(metadata: MetadataTable, inflight: Instant, commit: CommitMetadata) -> None:
    """Complete an action of the metadata table at a time after all times of both timelines."""
    own = metadata.own
    time_now = next_time(metadata, after=inflight.timestamp)
    completed = replace(inflight.in_state(InstantState.COMPLETED), completion_time=time_now)
    own.storage.create(own.instant_path(completed), render_commit_metadata(commit))


def next_time(metadata: MetadataTable, after: str = "") -> str:
    """A time after all times of both timelines, and after `after`."""
    latest = max(metadata.own.timeline.latest_time or "", metadata.table.timeline.latest_time or "", after)
    return new_instant_time(latest, now_on_timeline(metadata.table))


def _write_index(
    metadata: MetadataTable, index: str, instant_time: str, update: IndexUpdate
) -> Iterable[WriteStat]:
    own, directory = metadata.own, join(metadata.own.base_path, index)
    file_ids = _file_groups(metadata, index)
    for file_id, records, deleted in _by_group(update, file_ids):
        blocks = metadata_blocks(records, deleted, index, instant_time)
        log_file = write_log_file(own.storage, directory, file_id, instant_time, 1, _WRITE_TOKEN, blocks)
        yield WriteStat(
            file_id=file_id,
            path=f"{index}/{log_file.path.rpartition('/')[2]}",
            partition_path=index,
            num_writes=len(records),
            num_deletes=len(deleted),
            total_write_bytes=log_file.length,
            file_size_in_bytes=log_file.length,
        )


def write_base_file(
    storage: Storage,
    base_path: str,
    index: str,
    file_id: str,
    instant_time: str,
    records: EncodedCells,
) -> WriteStat:
    """Write the base file of a file group of the metadata table at `base_path`. Raises StorageError."""
    content = encode_metadata_file(records)
    name = f"{file_id}_{_WRITE_TOKEN}_{instant_time}.{HFILE}"
    storage.write(join(base_path, index, name), content)
    return WriteStat(
        file_id=file_id,
        path=f"{index}/{name}",
        partition_path=index,
        num_writes=len(records),
        total_write_bytes=len(content),
        file_size_in_bytes=len(content),
    )


def delete_index_files(metadata: MetadataTable, is_chosen: Callable[[str], bool]) -> None:
    """Delete the files of all indexes whose names are chosen. Raises StorageError."""
    own = metadata.own
    directories = [join(own.base_path, index) for index in metadata.indexes]
    listed = own.storage.list_directories(directories, missing_ok=True)
    own.storage.delete_files([entry.path for infos in listed for entry in infos if is_chosen(entry.name)])


def _file_groups(metadata: MetadataTable, index: str) -> list[str]:
    """The file ids of an index, sorted: those of all files, committed or not."""
    entries = metadata.own.storage.list_directory(join(metadata.own.base_path, index))
    bases = (parse_base_file_name(entry.name, HFILE) for entry in entries)
    logs = (parse_log_file_name(entry.name) for entry in entries)
    return sorted({base.file_id for base in (*bases, *logs) if base is not None})


def _by_group(update: IndexUpdate, file_ids: Sequence[str]) -> Iterable[tuple[str, EncodedCells, pa.Array]]:
    of_records = file_groups_of(update.records.keys, len(file_ids))
    of_deleted = file_groups_of(update.deleted, len(file_ids))
    for number in np.union1d(of_records, of_deleted).tolist():
        records = update.records.take(np.flatnonzero(of_records == number))
        yield file_ids[number], records, update.deleted.filter(pa.array(of_deleted == number))


def undo_deltacommit(table: HudiTable, instant_time: str) -> None:
    """Remove what an action that is rolled back has written to a metadata table, before its instant goes.

    Raises StorageError.
    """
    if not table.timeline.layout.has_completion_times:
        return
    metadata = readable_metadata_table(table)
    if metadata is not None and _has_instant(metadata, instant_time):
        _undo(metadata, instant_time)


def _has_instant(metadata: MetadataTable, instant_time: str) -> bool:
    return any(instant.timestamp == instant_time for instant in metadata.own.timeline.instants)


def _undo(metadata: MetadataTable, instant_time: str) -> None:
    own = metadata.own
    delete_index_files(metadata, lambda name: _is_log_of(name, instant_time))
    instants = [instant for instant in own.timeline.instants if instant.timestamp == instant_time]
    for instant in sorted(instants, key=lambda each: each.state, reverse=True):
        own.storage.delete_file(own.instant_path(instant))
    for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
        pending = Instant(instant_time, DELTA_COMMIT, state)
        own.storage.delete_file(own.instant_path(pending))


def _is_log_of(name: str, instant_time: str) -> bool:
    log_file_name = parse_log_file_name(name)
    return log_file_name is not None and log_file_name.base_instant_time == instant_time
