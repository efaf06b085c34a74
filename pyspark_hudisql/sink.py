"""Writing by `df.write.format("hudi")` on plain PySpark, each `save` as one commit.

Follows PySpark's `DataSourceArrowWriter`: created in a process of Spark's driver, pickled into tasks, and
committed or aborted in another process. Such a writer gets rows in Spark's partitions and has neither
SparkSession nor metastore. Inserts and overwrites write new file groups in the tasks. For upserts and
deletes, Hudi's default, and where rows of one key are combined, the tasks send their rows to the process that
commits, which looks up the keys and writes the file slices: for as many rows as fit on the driver.
`hudisql.write_table` does the same by Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hudisql.errors import HudisqlError, InvalidArgumentError, WriteRefusedError
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.read.files.conform import conform_batch
from hudisql.read.merge.merge_mode import merge_mode_of
from hudisql.read.merge.partial_update import fills_rows
from hudisql.spark.python_worker import complete_input
from hudisql.storage import Storage
from hudisql.write.execution.bulk_insert import bulk_insert_partition
from hudisql.write.execution.commit_files import finish_commit
from hudisql.write.execution.driver_upsert import precombine_rows, upsert_on_driver, with_keys
from hudisql.write.execution.write_context import WrittenFile, make_write_context
from hudisql.write.keygen.new_row_keys import null_key_error
from hudisql.write.overwrite import bulk_insert_operation_type
from hudisql.write.transaction.commit import begin_commit, rollback_commit
from hudisql.write.transaction.rows_checkpoint import CommitCheckpoint
from pyspark_hudisql.metastore_sync import run_sync
from pyspark_hudisql.new_tables import remove_made_table
from pyspark_hudisql.prepared_write import (
    PreparedWrite,
    prepare_write,
    refuse_unreadable_paths,
    table_rows,
)
from pyspark_hudisql.rows_by_stored_key import refuse_unknown_rows, with_stored_keys

# Rows come in any order: the number of table partitions that are written at the same time.
_MOST_OPEN: Final = 8
# The most bytes that a task may send: Spark pickles them several times.
MOST_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class SentRows(WriterCommitMessage):
    """The rows of one task as a compressed Arrow stream; empty without rows."""

    stream: bytes


def compressed_rows(batches: Sequence[pa.RecordBatch]) -> bytes:
    """The batches as a compressed Arrow stream; empty without batches."""
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


class CommittingWriter(DataSourceArrowWriter):
    """A writer whose constructor begins the commit."""

    def __init__(self, prepared: PreparedWrite) -> None:
        self._prepared = prepared
        overwrite = prepared.overwrite
        commit = begin_commit(
            prepared.table,
            prepared.operation.upper() if prepared.by_key else bulk_insert_operation_type(overwrite),
            replaces=overwrite is not None,
            concurrency=prepared.options.concurrency,
            checkpoint=prepared.options.checkpoint,
        )
        self._schema = prepared.table.schema
        self._commit = replace(commit, table=commit.table.with_schema(self._schema))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write or send the rows of one of Spark's tasks. Raises StorageError if they were cut short."""
        return self.write_rows(complete_input(iterator))

    def write_rows(self, batches: Iterable[pa.RecordBatch]) -> WriterCommitMessage:
        """Write or send rows, in a task or in the process that commits."""
        raise NotImplementedError

    def _rows_of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows with the table's columns and types."""
        for batch in batches:
            rows = conform_batch(table_rows(batch, self._prepared.columns, self._schema), self._schema)
            yield self._prepared.without_marked(rows)

    def _files_of(self, messages: list[WriterCommitMessage | None]) -> Sequence[WrittenFile]:
        """The files of the commit."""
        raise NotImplementedError

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the commit visible, and sync the metastore that the options name.

        Raises WriteRefusedError, WriteConflictError, StorageError; the written files are then deleted.
        SyncFailedError: the commit is complete.
        """
        try:
            files = self._files_of(messages)
            refuse_unreadable_paths(self._commit.table, {file.partition_path for file in files})
            prepared = self._prepared
            extra_metadata = prepared.options.extra_metadata
            finish_commit(self._commit, files, self._schema, prepared.overwrite, extra_metadata)
        except BaseException:
            self._roll_back()
            raise
        if self._prepared.sync is not None:
            table = self._commit.table
            run_sync(self._prepared.sync, table.storage, table.base_path)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Roll the commit back: delete the files that markers name. Raises StorageError."""
        self._roll_back()

    def _roll_back(self) -> None:
        rollback_commit(self._commit)
        if self._prepared.is_new:
            remove_made_table(self._commit.table.storage, self._commit.table.base_path)


class HudiUpsertWriter(CommittingWriter):
    """A write that needs all rows in one process; its constructor begins the commit."""

    def __init__(self, prepared: PreparedWrite) -> None:
        """Begin the commit. Raises InvalidArgumentError for a global index."""
        index = prepared.options.index
        if index.is_global:
            raise InvalidArgumentError(
                f"df.write.format('hudi') looks keys up in the partition that a row names, not by the index "
                f"{index.kind.value}",
                hint=f"hudisql.write_table(df, 'db.table', '{prepared.operation}', …) does it",
            )
        super().__init__(prepared)

    def write_rows(self, batches: Iterable[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one task, the newest row of each key. Raises WriteRefusedError."""
        keyed = [self._with_keys(batch) for batch in batches if batch.num_rows]
        sent = compressed_rows(self._newest(pa.Table.from_batches(keyed)).to_batches() if keyed else [])
        if len(sent) > MOST_BYTES:
            raise WriteRefusedError(
                f"df.write.format('hudi') looks keys up on Spark's driver, and one task has {len(sent)} "
                f"bytes of rows, more than {MOST_BYTES}; nothing was written",
                hint=f"hudisql.write_table(df, 'db.table', '{self._prepared.operation}') spreads the work",
            )
        return SentRows(sent)

    def _newest(self, rows: pa.Table) -> pa.Table:
        """The newest row of each key; all rows if they take values from each other, also of other tasks.

        Raises WriteRefusedError for several rows of a key if no column orders them.
        """
        table, prepared = self._commit.table, self._prepared
        mode = merge_mode_of(table)
        newest = precombine_rows(rows, table.ordering_fields, mode)
        if len(newest) < len(rows) and not table.ordering_fields and prepared.operation != "delete":
            raise WriteRefusedError(
                f"{len(rows) - len(newest)} of the rows for {table.base_path} have the record key of another "
                "one, and the table has no ordering column that says which is the newest",
                hint="drop them first (df.dropDuplicates), or make the table with "
                "hoodie.datasource.write.precombine.field",
            )
        return rows if fills_rows(mode) else newest

    def _with_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        table, prepared = self._commit.table, self._prepared
        rows = conform_batch(table_rows(batch, prepared.columns, self._schema), self._schema)
        keyed, null_keys = with_keys(rows, table, prepared.options, prepared.paths)
        if null_keys.count:
            raise null_key_error(table.properties.record_key_fields, "", null_keys.count)
        return with_stored_keys(keyed, batch, table.base_path) if prepared.by_stored_keys else keyed

    def _files_of(self, messages: list[WriterCommitMessage | None]) -> Sequence[WrittenFile]:
        """Look up the keys if rows are written by them, and write the file slices."""
        parts = [
            pa.ipc.open_stream(message.stream).read_all()
            for message in messages
            if isinstance(message, SentRows) and message.stream
        ]
        if not parts:
            return []
        prepared = self._prepared
        rows = self._newest(pa.concat_tables(parts))
        if not prepared.by_key:
            return self._loaded_files(rows)
        is_delete = prepared.operation == "delete"
        files = upsert_on_driver(self._commit, prepared.options, prepared.paths, rows, deletes=is_delete)
        if prepared.by_stored_keys:
            refuse_unknown_rows(files, self._commit.table.base_path)
        return files

    def _loaded_files(self, rows: pa.Table) -> list[WrittenFile]:
        """New file groups with the rows."""
        prepared = self._prepared
        rows = prepared.without_marked(rows)
        context = make_write_context(self._commit, prepared.options, self._schema, DEFAULT_CALENDARS)
        batches = rows.select(self._schema.names).to_batches()
        files = list(bulk_insert_partition(context, prepared.paths, 0, 0, batches, most_open=_MOST_OPEN))
        prepared.paths.refuse_nested({file.partition_path for file in files})
        return files


@dataclass(frozen=True)
class WrittenFiles(WriterCommitMessage):
    """The files that one task wrote."""

    files: tuple[WrittenFile, ...]


class HudiWriter(CommittingWriter):
    """A write of new file groups by the tasks; its constructor begins the commit."""

    def __init__(self, prepared: PreparedWrite) -> None:
        """Begin the commit. Raises UnsupportedTableError."""
        super().__init__(prepared)
        self._write_context = make_write_context(
            self._commit, prepared.options, self._schema, DEFAULT_CALENDARS
        )

    def write_rows(self, batches: Iterable[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task. Raises WriteRefusedError, WriteConflictError, StorageError."""
        from pyspark import TaskContext

        running = TaskContext.get()
        number, attempt = (0, 0) if running is None else (running.partitionId(), running.taskAttemptId())
        files = bulk_insert_partition(
            self._write_context,
            self._prepared.paths,
            number,
            int(attempt),
            self._rows_of(batches),
            most_open=_MOST_OPEN,
        )
        return WrittenFiles(tuple(files))

    def _files_of(self, messages: list[WriterCommitMessage | None]) -> Sequence[WrittenFile]:
        files = [file for message in messages if isinstance(message, WrittenFiles) for file in message.files]
        self._prepared.paths.refuse_nested({file.partition_path for file in files})
        return files


def make_writer(
    storage: Storage,
    options: Mapping[str, str],
    schema: StructType,
    overwrite: bool,
    checkpoint: CommitCheckpoint | None = None,
) -> CommittingWriter:
    """The writer of one `save`, or of a stream's batch with its checkpoint. Raises HudisqlError."""
    try:
        prepared = prepare_write(storage, options, schema, overwrite=overwrite)
        prepared = replace(prepared, options=replace(prepared.options, checkpoint=checkpoint))
        in_tasks = not (prepared.by_key or prepared.upserts or prepared.options.combines)
        try:
            return HudiWriter(prepared) if in_tasks else HudiUpsertWriter(prepared)
        except BaseException:
            if prepared.is_new:
                remove_made_table(storage, prepared.table.base_path)
            raise
    except NotImplementedError as error:
        # Spark reports this class only as "cannot be written".
        raise HudisqlError(*error.args, hint=getattr(error, "hint", None)) from None
