"""Deltacommits of a metadata table: what a commit or a clean of its table changes in the indexes.

Follows `HoodieBackedTableMetadataWriter.update` and `HoodieTableMetadataUtil.convertMetadataToRecords` of
Hudi 1.2: the deltacommit has the instant time of the table's action, and completes before it under the same
lock. Readers ignore it while that action is pending.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from hudisql.errors import CorruptTableError, HudisqlError, UnsupportedTableError, WriteConflictError
from hudisql.format.hfile.hfile_cells import cells_of
from hudisql.format.metadata_table.metadata_keys import file_key_part, key_parts, partition_key_part
from hudisql.format.metadata_table.metadata_records import (
    ALL_PARTITIONS,
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    NON_PARTITIONED,
    RECORD_INDEX,
)
from hudisql.format.metadata_table.metadata_writing import encode_file_list, encode_partition_list
from hudisql.format.metadata_table.value_types import digest_of_types
from hudisql.format.paths.file_names import is_log_file, parse_base_file_name
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.format.timeline.commit_metadata import INDEXED_COMMITS, NO_COMMIT, CommitMetadata, WriteStat
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.expression_indexes import expression_indexes
from hudisql.table.metadata_table.incomplete_groups import indexed_commits
from hudisql.table.metadata_table.kept_metadata_table import find_kept, has_kept_indexes
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.metadata_table.secondary_indexes import is_secondary
from hudisql.table.metadata_table.statistics_columns import statistics_columns
from hudisql.table.properties.table_configuration import (
    drop_indexes,
    forget_metadata_table,
    names_metadata_table,
)
from hudisql.write.metadata_table.added_columns import added_columns
from hudisql.write.metadata_table.bloom_filters import bloom_filter_key, bloom_filter_records
from hudisql.write.metadata_table.commit_statistics import statistics_of_commit
from hudisql.write.metadata_table.deleted_partitions import files_of_deleted_partitions
from hudisql.write.metadata_table.deltacommit_files import (
    IndexUpdate,
    IndexUpdates,
    write_deltacommit,
)
from hudisql.write.metadata_table.expression_ranges import expression_keys, expression_records
from hudisql.write.metadata_table.files_of_commit import files_to_measure, name_of, slice_of_file
from hudisql.write.metadata_table.group_writes import group_writes
from hudisql.write.metadata_table.key_changes import KeyChanges, index_changes, read_key_changes
from hudisql.write.metadata_table.left_out_keys import read_left_out_keys
from hudisql.write.metadata_table.secondary_changes import (
    NO_SECONDARY_CHANGES,
    SecondaryChanges,
    read_secondary_changes,
    secondary_updates,
)
from hudisql.write.metadata_table.statistics_changes import define_statistics, settle_statistics

# The record keys of a commit are held in memory until it completes, about 200 bytes each.
_MOST_NEW_KEYS: Final = 50_000_000
# A changed row has up to two keys in each secondary index.
_MOST_CHANGED_ROWS: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class PreparedCommit:
    """What a commit changes in the indexes; of the record index the keys, to be compared with it later.

    An index without an update is dropped, and a record index without `keys`, with the secondary ones.
    `extra_metadata` is what the commit says of the indexes, `columns` those that have statistics after a
    commit that adds some.
    """

    updates: IndexUpdates
    keys: KeyChanges | None = None
    secondary: SecondaryChanges = NO_SECONDARY_CHANGES
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def of_now(
        self, table: HudiTable, now: HudiTable, commit: CommitMetadata, instant_time: str
    ) -> PreparedCommit | None:
        """What the commit, prepared with `table`, changes `now`: itself unless others have committed since.

        They may have changed where `stored` keys are, which are left out then. The commit is prepared again
        if they have changed the columns, or written files that lack those that it adds. Raises
        CorruptTableError, StorageError.
        """
        if now.timeline.commits == table.timeline.commits:
            return self
        if self.columns or now.schema != table.schema:
            return prepare_commit(now, commit, instant_time)
        if self.keys is None or not len(self.keys.stored.keys):
            return self
        return replace(self, keys=self.keys.with_stored(()), extra_metadata={})


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
    sizes = _sizes_by_path(commit)
    updates = {FILES: IndexUpdate(cells_of(file_records(sizes)))}
    columns, schema = statistics_columns(table, written), _schema_after(table, commit, instant_time)
    if columns is not None:
        known = {*columns} & {*META_COLUMNS, *table.schema.names}
        has_other_types = digest_of_types(schema, known) != digest_of_types(table.schema, known)
        if has_other_types or not {*table.schema.names} <= {*schema.names}:
            return DROPPED
    updates |= _expressions_of_commit(table, schema, instant_time, written)
    added: tuple[pa.Field, ...] = ()
    if columns is not None:
        added = added_columns(table, schema, columns)
        columns = tuple(dict.fromkeys([*columns, *(each.name for each in added)]))
        updates |= statistics_of_commit(table, schema, instant_time, written, columns, added)
    if BLOOM_FILTERS in indexes:
        filters = bloom_filter_records(table, sizes, instant_time)
        updates |= {} if filters is None else {BLOOM_FILTERS: IndexUpdate(filters)}
    keys, secondary, extra = None, NO_SECONDARY_CHANGES, dict[str, str]()
    if RECORD_INDEX in indexes and _new_rows(commit) <= _MOST_NEW_KEYS:
        slices = [
            slice_of_file(table, path, name_of(stat), stat.file_size_in_bytes)
            for path, stats in written.items()
            for stat in stats
        ]
        with_secondary = any(map(is_secondary, indexes)) and _changed_rows(commit) <= _MOST_CHANGED_ROWS
        writes = group_writes(table, commit, slices, before_logs=with_secondary)
        keys = read_key_changes(table, writes, instant_time)
        if with_secondary:
            secondary = read_secondary_changes(table, commit, writes, instant_time)
        left_out = read_left_out_keys(table)
        if left_out is not None:
            keys = keys.with_stored(left_out.keys)
            extra = {INDEXED_COMMITS: indexed_commits(table.timeline).render()} if left_out.are_all else {}
    return PreparedCommit(updates, keys, secondary, extra, columns or () if added else ())


def _schema_after(table: HudiTable, commit: CommitMetadata, instant_time: str) -> pa.Schema:
    """The table's schema once the commit is completed: a compaction may be older than its last change."""
    is_older = any(each.timestamp > instant_time for each in table.timeline.commits)
    return table.schema if is_older else table.schema_of(commit.schema)


def _expressions_of_commit(
    table: HudiTable, schema: pa.Schema, instant_time: str, written: Mapping[str, Sequence[WriteStat]]
) -> IndexUpdates:
    """The updates of the expression indexes; none of one whose column gets another type or is dropped."""
    indexes = expression_indexes(table)
    if not indexes:
        return {}
    files = files_to_measure(table, written, (), instant_time)
    columns = {name: table.schema.field(index.column) for name, index in indexes.items()}
    return {
        name: IndexUpdate(cells_of(expression_records(table, indexes[name], column, files)))
        for name, column in columns.items()
        if column.name in schema.names and schema.field(column.name).type == column.type
    }


def _new_rows(commit: CommitMetadata) -> int:
    """The rows that the commit puts into file groups: all of new ones and of log files, else the inserted."""
    return sum(
        stat.num_writes if stat.prev_commit == NO_COMMIT or is_log_file(stat.path or "") else stat.num_inserts
        for stat in commit.write_stats
    )


def _changed_rows(commit: CommitMetadata) -> int:
    """The rows that the commit changes, deletes or puts into file groups."""
    changed = sum(
        stat.num_update_writes + stat.num_deletes
        for stat in commit.write_stats
        if not is_log_file(stat.path or "")
    )
    return changed + _new_rows(commit)


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
    of_records = _record_updates(metadata, prepared.keys, instant_time)
    # A secondary index tells keys, which the record index looks up.
    of_secondary = secondary_updates(now, prepared.secondary) if of_records else {}
    # Another writer may have dropped indexes meanwhile.
    updates = {
        name: update
        for name, update in {**prepared.updates, **of_records, **of_secondary}.items()
        if name in metadata.indexes
    }
    dropped = {*metadata.indexes} - {*updates}
    if dropped:
        drop_indexes(now, dropped)
    gone: Mapping[str, Sequence[str]] = {}
    with suppress(CorruptTableError, UnsupportedTableError):
        gone = files_of_deleted_partitions(metadata, [_key(path) for path in commit.partition_to_write_stats])
    if gone:
        updates[FILES] = IndexUpdate(cells_of(file_records(_sizes_by_path(commit), deleted=gone)))
    if prepared.columns and COLUMN_STATS in updates and now.timeline.layout.has_completion_times:
        define_statistics(metadata, prepared.columns, now.schema_of(commit.schema), instant_time)
    write_deltacommit(metadata, instant_time, updates)
    return not dropped


def settle_commit(table: HudiTable, prepared: PreparedCommit | None) -> None:
    """End what `write_commit` has begun of a commit that adds columns, once it is completed.

    If it fails the next write does it.
    """
    if prepared is None or not prepared.columns:
        return
    with suppress(HudisqlError):
        metadata = find_kept(table.reopened())
        if metadata is not None:
            settle_statistics(metadata)


def _record_updates(metadata: MetadataTable, keys: KeyChanges | None, instant_time: str) -> IndexUpdates:
    """The update of the record index; none if it cannot be read or tell where all keys are."""
    if RECORD_INDEX not in metadata.indexes:
        return {}
    changes = None
    if keys is not None:
        with suppress(CorruptTableError, UnsupportedTableError):
            changes = index_changes(metadata, keys, instant_time)
    return {} if changes is None else {RECORD_INDEX: changes}


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
    columns = statistics_columns(table, deleted)
    if columns is not None:
        parts = key_parts(columns)
        keys = [
            f"{part}{partition_key_part(path)}{file_key_part(name)}"
            for path, found in deleted.items()
            for name in found
            for part in parts.values()
        ]
        updates[COLUMN_STATS] = IndexUpdate(deleted=pa.array(keys, pa.string()))
    for name, index in expression_indexes(table).items():
        gone_keys = [key for path, found in deleted.items() for key in expression_keys(index, path, found)]
        updates[name] = IndexUpdate(deleted=pa.array(gone_keys, pa.string()))
    if BLOOM_FILTERS in metadata.indexes:
        keys = [
            bloom_filter_key(path, name)
            for path, found in deleted.items()
            for name in found
            if parse_base_file_name(name)
        ]
        updates[BLOOM_FILTERS] = IndexUpdate(deleted=pa.array(keys, pa.string()))
    write_deltacommit(metadata, instant_time, updates)


def _named(stats: Iterable[WriteStat]) -> list[WriteStat]:
    return [stat for stat in stats if stat.path]


def _sizes_by_path(commit: CommitMetadata) -> dict[str, dict[str, int]]:
    """The bytes of the commit's files by partition path and name."""
    return {path: _sizes(_named(stats)) for path, stats in commit.partition_to_write_stats.items()}


def _sizes(stats: Collection[WriteStat]) -> dict[str, int]:
    """The bytes of the files by name, change logs included."""
    sizes = {name_of(stat): stat.file_size_in_bytes for stat in stats}
    logs = {path: size for stat in stats for path, size in (stat.cdc_stats or {}).items()}
    return sizes | {path.rpartition("/")[2]: size for path, size in logs.items()}


def _key(path: str) -> str:
    return path or NON_PARTITIONED


def file_records(
    sizes: Mapping[str, Mapping[str, int]], *, deleted: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> dict[str, bytes]:
    """The records of `files` for new files by partition path; those of the keys in `deleted` delete files."""
    records = {
        _key(path): encode_file_list(found, deleted=deleted.get(_key(path), ()))
        for path, found in sizes.items()
        if found
    }
    return {ALL_PARTITIONS: encode_partition_list([_key(path) for path in sizes]), **records}
