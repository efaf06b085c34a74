"""Runs the plan of a resync: one commit with every new source file, exactly once.

Each new file becomes a file group of its own, written by the handle that writes all new rows; with `upserts`
the rows go through the index like any upsert. The commit's list of source files is created when it begins and
is valid once it completes (`resynced_sources`). Knows neither SQL text nor the metastore.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.bootstrap.blockers import name_some
from hudisql.bootstrap.files.skeleton import KeyCheck
from hudisql.bootstrap.resync.resync_keys import refuse_repeated_keys, refuse_stored_keys
from hudisql.bootstrap.resync.resync_plan import ResyncPlan
from hudisql.bootstrap.resync.resync_rows import SourceRows, file_numbers, row_frame, source_rows
from hudisql.bootstrap.rollback.table_sources import is_unchanged
from hudisql.errors import SourceChangedError, UnsupportedTableError
from hudisql.read.scan.arrow_scan import calendar_settings
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.resynced_sources import ResyncedSource, record_resync
from hudisql.write.execution.apply_changes import apply_changes
from hudisql.write.execution.commit_files import WriteResult, commit_files
from hudisql.write.execution.create_handle import CreateHandle
from hudisql.write.execution.task_results import collect_files, encode_written_files
from hudisql.write.execution.upsert import tag_locations
from hudisql.write.execution.write_context import (
    WriteContext,
    WriteTask,
    WrittenFile,
    make_write_context,
    make_write_task,
)
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.transaction.commit import OpenCommit

if TYPE_CHECKING:
    from hudisql.context import Context

INSERT_OPERATION: Final = "BULK_INSERT"
UPSERT_OPERATION: Final = "UPSERT"
FILES_KEY: Final = "hudisql.resync.files"
"""Key of a commit's extra metadata: the number of its source files."""
LIST_KEY: Final = "hudisql.resync.list"
"""Key of a commit's extra metadata: the number of the list that names these files."""


def run_resync(
    context: Context, table: HudiTable, plan: ResyncPlan, options: WriteOptions, resources: ExitStack
) -> WriteResult:
    """Commit the plan's new files; no commit if there are none.

    `resources` keep cached rows until they are closed. Raises BootstrapBlockedError for the plan's blockers,
    WriteRefusedError for null keys and keys that the table has, RepeatedKeysError, SourceChangedError,
    WriteConflictError, UnsupportedTableError, StorageError; the table is then as before.
    """
    plan.raise_if_blocked()
    if not plan.partitions:
        return WriteResult(None)
    if options.index.buckets is not None:
        raise UnsupportedTableError(
            f"a bucket index is declared for the table at {table.base_path}, but file groups of a bootstrap"
            " are not buckets",
            hint="SET hoodie.index.type = BLOOM",
        )
    paths = PartitionPaths(table, options.key_generator)
    files = source_rows(plan.partitions, paths)
    begun = partial(_begun, plan, files)
    spark = context.spark
    if plan.request.upserts:
        rows = row_frame(spark, table, files, calendar_settings(spark))
        changes, combined = tag_locations(spark, table, rows, options, resources)
        result = apply_changes(spark, table, changes, UPSERT_OPERATION, options, begun=begun)
        return replace(result, combined=result.combined + combined)
    key_check = KeyCheck.NONE if table.properties.generates_record_keys else KeyCheck(plan.request.key_check)
    refuse_stored_keys(context, table, files, paths, key_check, complex_keys=options.complex_keys)

    def write(commit: OpenCommit) -> list[WrittenFile]:
        written = _write_files(context, commit, files, options)
        refuse_repeated_keys(context, files, written, key_check, plan.request.name)
        check_sources_unchanged(table.storage, files)
        return [file for _, file in written]

    return commit_files(
        table, INSERT_OPERATION, table.schema, write, concurrency=options.concurrency, begun=begun
    )


def _begun(plan: ResyncPlan, files: Sequence[SourceRows], commit: OpenCommit) -> Mapping[str, str]:
    """Record the source files of the commit.

    The rows of an upsert are read before its commit begins, so the source is checked here, too.
    """
    table = commit.table
    check_sources_unchanged(table.storage, files)
    sources = [ResyncedSource(file.partition_path, file.new_file.file) for file in files]
    number = record_resync(table, commit.instant_time, plan.lists, sources)
    return {FILES_KEY: str(len(files)), LIST_KEY: str(number)}


def check_sources_unchanged(storage: Storage, files: Sequence[SourceRows]) -> None:
    """Raise SourceChangedError if a file has changed since the resync was planned."""
    planned = [file.new_file.file for file in files]
    infos = storage.infos([external_file.path for external_file in planned])
    changed = [
        external_file.path
        for external_file, info in zip(planned, infos, strict=True)
        if not is_unchanged(external_file, info)
    ]
    if changed:
        raise SourceChangedError(
            f"source files were changed or removed during the resync: {name_some(changed)}",
            hint="nothing was written; run the call again when nothing writes to the source",
        )


@dataclass(frozen=True, slots=True)
class _FileTask:
    """A source file and the task that writes its rows."""

    source: SourceRows
    task: WriteTask

    def write(self, context: WriteContext, attempt: int) -> Iterator[WrittenFile]:
        """Write the file's rows into new base files."""
        new_file = self.source.new_file
        # Sizes its files by its rows' bytes in the source.
        context = replace(context, bytes_per_row=new_file.file.length / new_file.rows)
        handle = CreateHandle(context, self.task.of_attempt(attempt), context.row_keys(self.task.number))
        try:
            for batch in self.source.read(context.storage, context.schema, context.calendars):
                handle.write(batch)
            yield from handle.finish()
        except BaseException:
            handle.abandon()
            raise


def _write_files(
    context: Context, commit: OpenCommit, files: Sequence[SourceRows], options: WriteOptions
) -> list[tuple[int, WrittenFile]]:
    """Write each source file in Spark tasks; returns each file written with the number of its source file."""
    spark = context.spark
    write_context = make_write_context(commit, options, commit.table.schema, calendar_settings(spark))
    paths = PartitionPaths(commit.table, options.key_generator)
    tasks = [
        make_write_task(
            write_context,
            number,
            file.partition_path,
            file.partition_values,
            is_new_partition=paths.existing(file.partition_path) is None,
            rows=file.new_file.rows,
        )
        for number, file in enumerate(files)
    ]
    shared = spark.sparkContext.broadcast(
        [pickle.dumps(_FileTask(file, task)) for file, task in zip(files, tasks, strict=True)]
    )

    def write(_: int, attempt: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return encode_written_files(
            written
            for number in numbers
            for written in pickle.loads(shared.value[number]).write(write_context, attempt)
        )

    number_of = {task.file_naming.file_id_prefix: task.number for task in tasks}
    written = collect_files(file_numbers(spark, len(tasks)), write)
    return [(number_of[file.file_id.rpartition("-")[0]], file) for file in written]
