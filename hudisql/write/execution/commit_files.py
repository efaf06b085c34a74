"""One commit around the writing of files: begin, write, complete, and roll back if that fails.

Follows `BaseCommitActionExecutor` of Hudi 0.15: write statistics become the commit's metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.format.paths.file_names import FileGroup
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.timeline.commit_metadata import (
    NO_COMMIT,
    CommitMetadata,
    RuntimeStats,
    WriteStat,
    new_commit_metadata,
)
from hudisql.table.files.committed_slices import WRITTEN_FOOTERS
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.registered_partitions import end_registration
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.overwrite import Overwrite, overwritten_registered, replaced_file_ids
from hudisql.write.transaction.commit import (
    OpenCommit,
    begin_commit,
    complete_commit,
    discard_empty_commit,
    rollback_commit,
)
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency
from hudisql.write.transaction.rows_checkpoint import CommitCheckpoint
from hudisql.write.transaction.timeline_files import completed_path
from hudisql.write.transaction.uncommitted_files import delete_files_of

NO_EXTRA_METADATA: Final[Mapping[str, str]] = MappingProxyType({})
Begun: TypeAlias = Callable[[OpenCommit], Mapping[str, str]]
"""Called with the begun commit before files are written; returns extra metadata for it."""


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a commit; `instant_time` is None if nothing was committed.

    `skipped_late` counts incoming rows that were older than the stored ones, `combined` those that newer rows
    of their key replaced. `dropped_metadata_table`: see `OpenCommit`. `table` is the table as the
    commit left it, None if it must be opened again.
    """

    instant_time: str | None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    moved: int = 0
    skipped_late: int = 0
    combined: int = 0
    files: int = 0
    bytes: int = 0
    dropped_metadata_table: bool = False
    table: HudiTable | None = field(default=None, compare=False, repr=False)


def commit_files(
    table: HudiTable,
    operation_type: str,
    schema: pa.Schema,
    write: Callable[[OpenCommit], list[WrittenFile]],
    overwrite: Overwrite | None = None,
    *,
    concurrency: Concurrency = SINGLE_WRITER,
    changed: Collection[FileGroup] = (),
    checkpoint: CommitCheckpoint | None = None,
    extra_metadata: Mapping[str, str] = NO_EXTRA_METADATA,
    begun: Begun | None = None,
    has_task_attempts: bool = True,
) -> WriteResult:
    """Commit the files that `write` writes; nothing is visible before.

    `schema` becomes the table's schema, `changed` are the file groups whose rows the commit changes. Without
    files, `overwrite` and `checkpoint` there is no commit, whose metadata has `extra_metadata`. `begun` is
    called before `write`. Without
    `has_task_attempts` `write` creates all files in this process. After any error the commit is rolled back.
    Raises WriteConflictError, UnsupportedTableError, StorageError.
    """
    commit = begin_commit(
        table,
        operation_type,
        replaces=overwrite is not None,
        concurrency=concurrency,
        changed=changed,
        checkpoint=checkpoint,
        has_task_attempts=has_task_attempts,
    )
    files: list[WrittenFile] = []
    try:
        of_begun = {} if begun is None else begun(commit)
        files = write(commit)
        return finish_commit(commit, files, schema, overwrite, {**extra_metadata, **of_begun})
    except BaseException:
        rollback_commit(commit)
        if not has_task_attempts:
            _delete_files_without_markers(commit, files)
        raise


def _delete_files_without_markers(commit: OpenCommit, files: Sequence[WrittenFile]) -> None:
    """Delete files whose markers another writer deleted, when it rolled the commit back during the write."""
    table = commit.table
    if completed_path(table, commit.instant) is None:
        written = [path for file in files for path in (file.path, *file.change_logs)]
        delete_files_of(table.storage, written, commit.instant_time, table.timeline.layout)


def finish_commit(
    commit: OpenCommit,
    files: Sequence[WrittenFile],
    schema: pa.Schema,
    overwrite: Overwrite | None,
    extra_metadata: Mapping[str, str] = NO_EXTRA_METADATA,
) -> WriteResult:
    """Make the written files visible; without files, `overwrite` and checkpoint the commit is discarded.

    Raises RegisterOnlyError, WriteConflictError, StorageError: the caller then abandons the commit.
    """
    if not files and overwrite is None and commit.checkpoint is None:
        discard_empty_commit(commit)
        return WriteResult(None)
    replaced = None
    if overwrite is not None:
        touched = {file.partition_path for file in files}
        replaced = replaced_file_ids(commit.table, overwrite, touched)
        end_registration(
            commit.table, commit.instant_time, overwritten_registered(commit.table, overwrite, touched)
        )
    footers = {file.path: file.footer for file in files if file.footer is not None}
    commit.table.list_once(WRITTEN_FOOTERS, dict[str, pq.FileMetaData]).update(footers)
    table = complete_commit(commit, _metadata(commit, files, schema, replaced, extra_metadata))
    return WriteResult(
        commit.instant_time,
        inserted=sum(file.inserted - file.moved_in for file in files),
        updated=sum(file.updated for file in files),
        deleted=sum(file.deleted for file in files),
        moved=sum(file.moved for file in files),
        skipped_late=sum(file.late_arriving for file in files),
        combined=sum(file.combined for file in files),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        dropped_metadata_table=commit.dropped_metadata_table,
        table=table,
    )


def _metadata(
    commit: OpenCommit,
    files: Sequence[WrittenFile],
    schema: pa.Schema,
    replaced: Mapping[str, tuple[str, ...]] | None,
    extra_metadata: Mapping[str, str],
) -> CommitMetadata:
    table = commit.table
    ordered = sorted(files, key=lambda written_file: (written_file.partition_path, written_file.file_id))
    checkpoint = {} if commit.checkpoint is None else commit.checkpoint.extra_metadata
    return new_commit_metadata(
        (write_stat(table.base_path, file) for file in ordered),
        avro_from_arrow(table.in_files(schema), table.name),
        commit.operation_type,
        replaced,
        {**extra_metadata, **checkpoint},
    )


def write_stat(base_path: str, file: WrittenFile) -> WriteStat:
    """The write statistic of one file."""
    change_logs = {_relative(base_path, path): size for path, size in file.change_logs.items()}
    return WriteStat(
        file_id=file.file_id,
        path=_relative(base_path, file.path),
        cdc_stats=change_logs or None,
        partition_path=file.partition_path,
        prev_commit=file.previous_instant or NO_COMMIT,
        num_writes=file.rows,
        num_deletes=file.deleted + file.moved,
        num_update_writes=file.updated,
        num_inserts=file.inserted,
        total_write_bytes=file.bytes,
        file_size_in_bytes=file.bytes,
        log_write=file.log,
        runtime_stats=RuntimeStats(
            total_create_time=0 if file.previous_instant else file.milliseconds,
            total_upsert_time=file.milliseconds if file.previous_instant else 0,
        ),
    )


def _relative(base_path: str, path: str) -> str:
    return path[len(base_path) :].lstrip("/")
