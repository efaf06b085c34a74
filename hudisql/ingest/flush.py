"""Commits the events of one table: one commit has the rows and the offsets behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.schema.meta_columns import IS_DELETED
from hudisql.format.timeline.instant import InstantState
from hudisql.ingest.offsets import OffsetsCheckpoint, TableOffsets
from hudisql.ingest.table_index import TableIndex
from hudisql.read.merge.merge_mode import merge_mode_of
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.registered_partitions import refuse_registered
from hudisql.write.changes import PARTITION, RECORD_KEY
from hudisql.write.execution.commit_files import WriteResult, commit_files
from hudisql.write.execution.driver_upsert import (
    insert_on_driver,
    precombine_rows,
    upsert_newest_on_driver,
)
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.transaction.commit import OpenCommit

OPERATION_TYPE: Final = "UPSERT"
_INSERT: Final = "INSERT"
# What rows in memory take in a file, about.
_BYTES_IN_FILE: Final = 0.3
# A file is filled up if it has at most so many bytes, or so many times those of the partition's rows.
_ALWAYS_SMALL: Final = 256 << 10
_MOST_REWRITTEN: Final = 2
# What a file has at least that is not filled up, however large the flush is: clustering joins such files.
_LARGE_ENOUGH: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class IngestTarget:
    """A table as it is now, with the options of its writes; `after_commit` runs services and the sync."""

    table: HudiTable
    options: WriteOptions
    after_commit: Callable[[], None]


def commit_rows(
    target: IngestTarget,
    index: TableIndex,
    rows: pa.Table | None,
    previous: TableOffsets,
    reached: TableOffsets,
    paths: PartitionPaths | None = None,
) -> WriteResult:
    """Upsert the rows of `newest_of_keys` in one commit with the offsets `reached`; without rows the offsets
    alone. Rows of a table whose record keys are generated are inserted. The index then knows the new keys.
    `paths` are those of the target's table; they are listed again if another writer has committed since.

    Raises WriteConflictError if `previous` are not the table's offsets, or another writer conflicts;
    TableLockedError, UnsupportedTableError, WriteRefusedError (RegisterOnlyError for rows of register-only
    partitions), StorageError. Nothing is visible then.
    """
    table, options = target.table, _sized(target.options, rows)
    refuse_registered(table, paths_of(rows))
    written: list[tuple[OpenCommit, list[WrittenFile]]] = []

    def write(commit: OpenCommit) -> list[WrittenFile]:
        if rows is None:
            return []
        of_rows = paths
        if of_rows is None or commit.table.timeline.commits != table.timeline.commits:
            of_rows = PartitionPaths(commit.table, options.key_generator)
        if table.properties.generates_record_keys:
            return insert_on_driver(commit, options, of_rows, rows)
        files = upsert_newest_on_driver(commit, options, of_rows, rows, tag=index.tag)
        written.append((commit, files))
        return files

    result = commit_files(
        table,
        _INSERT if table.properties.generates_record_keys else OPERATION_TYPE,
        table.schema,
        write,
        concurrency=options.concurrency,
        checkpoint=OffsetsCheckpoint(previous, reached),
        begun=lambda commit: index.begin(commit.table, paths_of(rows)),
        has_task_attempts=False,
    )
    for commit, files in written:
        index.learn(commit.table, files, commit.instant.in_state(InstantState.COMPLETED))
    return result


def paths_of(rows: pa.Table | None) -> list[str]:
    """The partition paths of the rows."""
    return [] if rows is None else sorted(pc.unique(rows.column(PARTITION)).to_pylist())


def newest_of_keys(table: HudiTable, rows: pa.Table) -> pa.Table:
    """The newest row of each key, of rows in the order of their events.

    The rows have the table's columns, RECORD_KEY, PARTITION and `_hoodie_is_deleted`. If the table's record
    keys are generated, all rows stay.
    """
    if table.properties.generates_record_keys:
        return rows
    ordering_fields = table.ordering_fields
    rows = without_deleted(rows, ordering_fields)
    return precombine_rows(rows, ordering_fields, merge_mode_of(table), last_of_equals=True)


def without_deleted(rows: pa.Table, ordering_fields: Sequence[str]) -> pa.Table:
    """The rows (in the order of their events) without those that a later delete without ordering value hits.

    A delete that consists of a key has no ordering value, which would make it the oldest event of its key: it
    deletes all rows of the key before it.
    """
    if not ordering_fields or not set(ordering_fields) <= set(rows.schema.names):
        return rows
    is_delete = pc.fill_null(rows.column(IS_DELETED), False)
    for field in ordering_fields:
        is_delete = pc.and_(is_delete, pc.is_null(rows.column(field)))
    at = np.flatnonzero(is_delete.to_numpy())
    if not len(at):
        return rows
    keys = pc.binary_join_element_wise(rows.column(PARTITION), rows.column(RECORD_KEY), "\0").combine_chunks()
    deleted = keys.take(pa.array(at))
    # Of several deletes of a key the last one: the first in reverse order.
    ordered = deleted[::-1]
    found = pc.index_in(keys, value_set=ordered)
    last = at[::-1][pc.fill_null(found, 0).to_numpy()]
    stays = (np.arange(rows.num_rows) >= last) | found.is_null().to_numpy(zero_copy_only=False)
    return rows.filter(pa.array(stays))


def _sized(options: WriteOptions, rows: pa.Table | None) -> WriteOptions:
    """The options with a limit of small files that follows the rows.

    Hudi's default fills files of up to 100 MB by rewriting them: for a commit a minute of a few rows that
    would be most of the work. Clustering joins what stays small.
    """
    if rows is None:
        return options
    partitions = max(len(pc.unique(rows.column(PARTITION))), 1)
    new_bytes = int(rows.nbytes * _BYTES_IN_FILE / partitions)
    limit = max(_ALWAYS_SMALL, min(new_bytes * _MOST_REWRITTEN, _LARGE_ENOUGH))
    sizing = replace(options.sizing, small_file_bytes=min(options.sizing.small_file_bytes, limit))
    return replace(options, sizing=sizing)
