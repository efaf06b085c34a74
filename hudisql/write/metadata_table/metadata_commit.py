"""Deltacommits of a metadata table: what a commit or a clean of its table changes in the indexes.

Follows `HoodieBackedTableMetadataWriter.update` and `HoodieTableMetadataUtil.convertMetadataToRecords` of
Hudi 1.2: the deltacommit has the instant time of the table's action, and completes before it under the same
lock. Readers ignore it while that action is pending.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from hudisql.errors import CorruptTableError, UnsupportedTableError, WriteConflictError
from hudisql.format.hfile.hfile_cells import cells_of
from hudisql.format.metadata_table.merged_ranges import mergeable_range, merged_ranges
from hudisql.format.metadata_table.metadata_keys import (
    file_key_part,
    key_parts,
    partition_key_part,
)
from hudisql.format.metadata_table.metadata_records import (
    ALL_PARTITIONS,
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    NON_PARTITIONED,
    PARTITION_STATS,
    RECORD_INDEX,
)
from hudisql.format.metadata_table.metadata_writing import (
    ColumnRange,
    encode_file_list,
    encode_partition_list,
    encode_range,
    fits_first_form_values,
)
from hudisql.format.metadata_table.value_types import digest_of_types, is_measured
from hudisql.format.paths.file_names import (
    is_log_file,
    parse_base_file_name,
    parse_log_file_name,
)
from hudisql.format.schema.meta_columns import META_COLUMNS, META_SCHEMA
from hudisql.format.timeline.commit_metadata import INDEXED_COMMITS, NO_COMMIT, CommitMetadata, WriteStat
from hudisql.read.merge.merge_mode import InstantRange, log_merge_config_of
from hudisql.storage import join
from hudisql.table.file_slice import BaseFile, FileSlice, LogFile
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.expression_indexes import expression_indexes
from hudisql.table.metadata_table.incomplete_groups import indexed_commits
from hudisql.table.metadata_table.kept_metadata_table import (
    find_kept,
    has_first_form,
    has_kept_indexes,
    has_statistics_form,
)
from hudisql.table.metadata_table.metadata_table import MetadataTable, readable_metadata_table
from hudisql.table.metadata_table.secondary_indexes import is_secondary
from hudisql.table.metadata_table.statistics_columns import statistics_columns
from hudisql.table.partitions.listed_partitions import partition_of
from hudisql.table.properties.table_configuration import (
    drop_indexes,
    forget_metadata_table,
    names_metadata_table,
)
from hudisql.write.metadata_table.added_columns import (
    added_columns,
    define_statistics,
    nulls_of_files,
    nulls_of_partitions,
)
from hudisql.write.metadata_table.bloom_filters import bloom_filter_key, bloom_filter_records
from hudisql.write.metadata_table.column_ranges import (
    MeasuredFile,
)
from hudisql.write.metadata_table.deleted_partitions import files_of_deleted_partitions
from hudisql.write.metadata_table.deltacommit_files import (
    IndexUpdate,
    IndexUpdates,
    write_deltacommit,
)
from hudisql.write.metadata_table.expression_ranges import expression_keys, expression_records
from hudisql.write.metadata_table.group_writes import group_writes
from hudisql.write.metadata_table.key_changes import KeyChanges, index_changes, read_key_changes
from hudisql.write.metadata_table.left_out_keys import read_left_out_keys
from hudisql.write.metadata_table.measured_files import Measured, measure
from hudisql.write.metadata_table.secondary_changes import (
    NO_SECONDARY_CHANGES,
    SecondaryChanges,
    read_secondary_changes,
    secondary_updates,
)

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

    def is_outdated(self, table: HudiTable, now: HudiTable) -> bool:
        """True if commits since the table was opened may have changed where `stored` keys are."""
        has_stored = self.keys is not None and len(self.keys.stored.keys) > 0
        return has_stored and now.timeline.commits != table.timeline.commits

    def without_stored(self) -> PreparedCommit:
        """Without `stored` keys: the index does not get them."""
        keys = None if self.keys is None else self.keys.with_stored(())
        return replace(self, keys=keys, extra_metadata={})


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
    columns = statistics_columns(table, written)
    if columns is not None and commit.schema:
        known = {*columns} & {*META_COLUMNS, *table.schema.names}
        written_types = digest_of_types(table.schema_of(commit.schema), known)
        if written_types != digest_of_types(table.schema, known):
            return DROPPED
    updates |= _expressions_of_commit(table, commit, instant_time, written)
    added: tuple[pa.Field, ...] = ()
    if columns is not None:
        if commit.schema:
            added = added_columns(table, table.schema_of(commit.schema), columns)
            columns = tuple(dict.fromkeys([*columns, *(each.name for each in added)]))
        updates |= _statistics_of_commit(table, commit, instant_time, written, columns, added)
    if BLOOM_FILTERS in indexes:
        filters = bloom_filter_records(table, sizes, instant_time)
        updates |= {} if filters is None else {BLOOM_FILTERS: IndexUpdate(filters)}
    keys, secondary, extra = None, NO_SECONDARY_CHANGES, dict[str, str]()
    if RECORD_INDEX in indexes and _new_rows(commit) <= _MOST_NEW_KEYS:
        slices = [
            slice_of_file(table, path, _name(stat), stat.file_size_in_bytes)
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


def _statistics_of_commit(
    table: HudiTable,
    commit: CommitMetadata,
    instant_time: str,
    written: Mapping[str, Sequence[WriteStat]],
    columns: Sequence[str],
    added: Sequence[pa.Field],
) -> IndexUpdates:
    """The updates of both indexes of statistics; none if `column_stats` cannot have those of this commit."""
    if not all(has_statistics_form(table, column.type) for column in added):
        return {}
    fields = _measured_fields(table, commit, columns)
    files = {
        path: [_measured(table, path, stat, fields, instant_time) for stat in stats]
        for path, stats in written.items()
    }
    measured = measure(table, files)
    if has_first_form(table) and not fit_first_form(measured):
        return {}
    with_partitions = PARTITION_STATS in table.properties.metadata_partitions
    metadata = readable_metadata_table(table) if added else None
    if added and metadata is None:
        return {}
    others = nulls_of_partitions(metadata, added) if metadata and with_partitions else {}
    updates = statistics_updates(
        measured, others, with_partitions=with_partitions, in_first_form=has_first_form(table)
    )
    if metadata is not None:
        nulls = cells_of(nulls_of_files(metadata, added))
        updates[COLUMN_STATS] = IndexUpdate(updates[COLUMN_STATS].records.with_others(nulls))
    return updates


def _expressions_of_commit(
    table: HudiTable, commit: CommitMetadata, instant_time: str, written: Mapping[str, Sequence[WriteStat]]
) -> IndexUpdates:
    """The updates of the expression indexes; none of one whose column gets another type or is dropped."""
    indexes = expression_indexes(table)
    if not indexes:
        return {}
    files = {
        path: [_measured(table, path, stat, (), instant_time) for stat in stats]
        for path, stats in written.items()
    }
    schema = table.schema_of(commit.schema)
    columns = {name: table.schema.field(index.column) for name, index in indexes.items()}
    return {
        name: IndexUpdate(cells_of(expression_records(table, indexes[name], column, files)))
        for name, column in columns.items()
        if column.name in schema.names and schema.field(column.name).type == column.type
    }


def fit_first_form(measured: Measured) -> bool:
    """False if a range has a bound that indexes of version V1 cannot hold."""
    return all(
        fits_first_form_values(column_range)
        for files in measured.values()
        for _, ranges in files
        for column_range in ranges
    )


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
        define_statistics(metadata, prepared.columns, now.schema_of(commit.schema))
    write_deltacommit(metadata, instant_time, updates)
    return not dropped


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
    sizes = {_name(stat): stat.file_size_in_bytes for stat in stats}
    logs = {path: size for stat in stats for path, size in (stat.cdc_stats or {}).items()}
    return sizes | {path.rpartition("/")[2]: size for path, size in logs.items()}


def _name(stat: WriteStat) -> str:
    assert stat.path is not None  # of `_named`
    return stat.path.rpartition("/")[2]


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


def _measured_fields(
    table: HudiTable, commit: CommitMetadata, columns: Sequence[str]
) -> tuple[pa.Field, ...]:
    """The columns of the index as this commit writes them."""
    schema = table.schema_of(commit.schema)
    types = {each.name: each for each in (*META_SCHEMA, *schema)}
    found = [types[name] for name in columns if name in types]
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
    computed_meta = table.computed_meta
    return FileSlice(path, log.file_id, log.base_instant_time, None, (log_file,), computed_meta=computed_meta)


def statistics_updates(
    measured: Measured,
    others: Mapping[str, Sequence[ColumnRange]] = MappingProxyType({}),
    *,
    with_partitions: bool,
    in_first_form: bool = False,
) -> dict[str, IndexUpdate]:
    """The records of both indexes of statistics, in the form of version V1 or V2.

    `others` are ranges of other files by partition path.
    """
    of_files: dict[str, bytes] = {}
    of_partitions: dict[str, bytes] = {}
    names = {each.column for found in measured.values() for _, ranges in found for each in ranges}
    columns = key_parts(sorted(names | {each.column for ranges in others.values() for each in ranges}))
    for path in {**measured, **others}:
        partition = partition_key_part(path)
        by_column: dict[str, list[ColumnRange]] = defaultdict(list)
        for other in others.get(path, ()):
            by_column[other.column].append(other)
        for name, ranges in measured.get(path, ()):
            file = file_key_part(name)
            for column_range in ranges:
                key = f"{columns[column_range.column]}{partition}{file}"
                of_files[key] = encode_range(column_range, name, in_first_form=in_first_form)
                by_column[column_range.column].append(column_range)
        for column, ranges in by_column.items():
            key = f"{columns[column]}{partition}"
            merged = mergeable_range(merged_ranges(ranges))
            of_partitions[key] = encode_range(merged, path, of_partition=True, in_first_form=in_first_form)
    updates = {COLUMN_STATS: IndexUpdate(cells_of(of_files))}
    if with_partitions:
        updates[PARTITION_STATS] = IndexUpdate(cells_of(of_partitions))
    return updates
