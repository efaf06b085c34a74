"""Commits the events of one table: one commit has the rows and the offsets that they go up to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from hudisql.format.instant import InstantState
from hudisql.ingest.offsets import OffsetsCheckpoint, TableOffsets
from hudisql.ingest.table_index import TableIndex
from hudisql.table.hudi_table import HudiTable
from hudisql.write.execution.commit_files import WriteResult, commit_files
from hudisql.write.execution.driver_upsert import upsert_on_driver
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.transaction.commit import OpenCommit

OPERATION_TYPE = "UPSERT"


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
) -> WriteResult:
    """Upsert the rows (the table's columns, RECORD_KEY, PARTITION and `_hoodie_is_deleted`), in one commit
    with the offsets `reached`; without rows the offsets alone. The index then knows the new keys.

    Raises WriteConflictError if `previous` are not the table's offsets, or another writer conflicts;
    TableLockedError, UnsupportedTableError, WriteRefusedError, StorageError. Nothing is visible then.
    """
    table, options = target.table, target.options
    written: list[tuple[OpenCommit, list[WrittenFile]]] = []

    def write(commit: OpenCommit) -> list[WrittenFile]:
        if rows is None:
            return []
        paths = PartitionPaths(commit.table, options.key_generator)
        files = upsert_on_driver(commit, options, paths, rows, tag=index.tag)
        written.append((commit, files))
        return files

    result = commit_files(
        table,
        OPERATION_TYPE,
        table.schema,
        write,
        concurrency=options.concurrency,
        checkpoint=OffsetsCheckpoint(previous, reached),
    )
    for commit, files in written:
        index.learn(commit.table, files, commit.instant.in_state(InstantState.COMPLETED))
    return result
