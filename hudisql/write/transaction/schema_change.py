"""Commits that write no rows: a new schema, or partitions whose file groups are gone.

Follows `AlterHoodieTableAddColumnsCommand.commitWithSchema` (operation ALTER_SCHEMA) and
`SparkDeletePartitionCommitActionExecutor` (a replacecommit of the operation DELETE_PARTITION) of Hudi 0.15.
No file is deleted, and never a source file: the next clean deletes files that no version needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from hudisql.errors import InvalidArgumentError
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.schema.internal_schema import LATEST_SCHEMA_KEY, InternalSchema, arrow_schema
from hudisql.format.timeline.commit_metadata import DELETE_PARTITION, SCHEMA_KEY, CommitMetadata
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition
from hudisql.table.partitions.registered_partitions import end_registration
from hudisql.write.transaction.commit import OpenCommit, begin_commit, complete_commit, rollback_commit
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency

ALTER_SCHEMA: Final = "ALTER_SCHEMA"


def commit_schema(
    table: HudiTable, schema: pa.Schema, concurrency: Concurrency = SINGLE_WRITER
) -> OpenCommit:
    """Make `schema` (without meta columns) the table's; returns the completed commit.

    Raises UnsupportedTableError, WriteConflictError, StorageError; the table is then as before.
    """
    commit = begin_commit(table, ALTER_SCHEMA, concurrency=concurrency)
    _complete(commit, schema)
    return commit


def commit_internal_schema(
    table: HudiTable, schema: InternalSchema, concurrency: Concurrency = SINGLE_WRITER
) -> OpenCommit:
    """Make `schema` the table's, in the version of this commit; returns the completed commit.

    Raises UnsupportedTableError, WriteConflictError, StorageError; the table is then as before.
    """
    commit = begin_commit(table, ALTER_SCHEMA, concurrency=concurrency)
    version = replace(schema, version_id=int(commit.instant_time))
    _complete(commit, arrow_schema(version), extra_metadata={LATEST_SCHEMA_KEY: version.to_json()})
    return commit


def with_added_columns(table: HudiTable, added: pa.Schema, table_label: str) -> pa.Schema:
    """The table's schema with the new columns, which are placed before trailing partition columns.

    `table_label` names the table in errors. Raises InvalidArgumentError for a column that exists.
    """
    fields = list(table.schema)
    known = {field.name.lower() for field in fields}
    for field in added:
        if field.name.lower() in known:
            raise InvalidArgumentError(f"{table_label} has a column {field.name} already")
        known.add(field.name.lower())
    partitions = [name.lower() for name in table.properties.partition_fields]
    last = [field.name.lower() for field in fields[len(fields) - len(partitions) :]]
    at = len(fields) - len(partitions) if last == partitions else len(fields)
    return pa.schema([*fields[:at], *added, *fields[at:]])


def commit_without_partitions(
    table: HudiTable,
    partitions: Sequence[TablePartition],
    concurrency: Concurrency = SINGLE_WRITER,
    extra_metadata: Mapping[str, str] | None = None,
) -> OpenCommit:
    """Drop the partitions by replacing all of their file groups; returns the completed commit.

    The commit keeps `extra_metadata`. Raises UnsupportedTableError, WriteConflictError, StorageError; the
    table is then as before.
    """
    commit = begin_commit(table, DELETE_PARTITION, replaces=True, concurrency=concurrency)
    try:
        replaced: dict[str, list[str]] = {partition.path: [] for partition in partitions}
        for file_slice in load_file_slices(commit.table, partitions):
            replaced[file_slice.partition_path].append(file_slice.file_id)
        end_registration(commit.table, commit.instant_time, list(replaced))
    except BaseException:
        rollback_commit(commit)
        raise
    of_partitions = {path: tuple(ids) for path, ids in replaced.items()}
    _complete(commit, table.schema, of_partitions, extra_metadata=extra_metadata or {})
    return commit


def _complete(
    commit: OpenCommit,
    schema: pa.Schema,
    replaced: Mapping[str, tuple[str, ...]] | None = None,
    extra_metadata: Mapping[str, str] = MappingProxyType({}),
) -> None:
    own = {SCHEMA_KEY: avro_from_arrow(commit.table.in_files(schema), commit.table.name)}
    metadata = CommitMetadata(
        partition_to_write_stats={},
        extra_metadata={**own, **extra_metadata},
        operation_type=commit.operation_type,
        partition_to_replace_file_ids=replaced,
    )
    try:
        complete_commit(commit, metadata)
    except BaseException:
        rollback_commit(commit)
        raise
