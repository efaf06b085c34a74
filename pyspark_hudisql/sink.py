"""Writing by `df.write.format("hudi")` on plain PySpark, each `save` as one commit.

Follows PySpark's `DataSourceArrowWriter`: created in a process of Spark's driver, pickled into tasks, and
committed or aborted in another process. Such a writer gets rows in Spark's partitions and has neither
SparkSession nor metastore. Inserts and overwrites write new file groups in the tasks. For upserts and
deletes, Hudi's default, the tasks send their rows to the process that commits, which looks up the keys and
writes the file slices: for as many rows as fit on the driver. `hudisql.write_table` does the same by Spark's
tasks; it alone creates tables or changes columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hudisql.config.hudi_config import COMBINE_BEFORE_INSERT
from hudisql.errors import HudisqlError, InvalidArgumentError, WriteRefusedError
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.read.files.conform import conform_batch
from hudisql.spark.python_worker import complete_input
from hudisql.sql.dataframe.frame_options import LOADS
from hudisql.storage import Storage
from hudisql.write.execution.bulk_insert import bulk_insert_partition
from hudisql.write.execution.commit_files import finish_commit
from hudisql.write.execution.driver_upsert import precombine_rows, upsert_on_driver, with_keys
from hudisql.write.execution.write_context import WrittenFile, make_write_context
from hudisql.write.keygen.new_row_keys import null_key_error
from hudisql.write.overwrite import Overwrite, bulk_insert_operation_type
from hudisql.write.transaction.commit import OpenCommit, begin_commit, rollback_commit
from pyspark_hudisql.prepared_write import PreparedWrite, prepare_write

_LOADS: Final[Mapping[str, Overwrite | None]] = {"insert": None, **LOADS}
# Rows come in any order: the number of table partitions that are written at the same time.
_MOST_OPEN: Final = 8
# The most bytes that a task may send: Spark pickles them several times.
_MOST_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class SentRows(WriterCommitMessage):
    """The rows of one task with their keys and partitions, as a compressed Arrow stream."""

    stream: bytes


class CommittingWriter(DataSourceArrowWriter):
    """A writer whose constructor begins the commit."""

    _commit: OpenCommit
    _schema: pa.Schema
    _overwrite: Overwrite | None = None

    def _files_of(self, messages: list[WriterCommitMessage | None]) -> Sequence[WrittenFile]:
        """The files of the commit."""
        raise NotImplementedError

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the commit visible.

        Raises WriteRefusedError, WriteConflictError, StorageError; the written files are then deleted.
        """
        try:
            finish_commit(self._commit, self._files_of(messages), self._schema, self._overwrite)
        except BaseException:
            rollback_commit(self._commit)
            raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Roll the commit back: delete the files that markers name. Raises StorageError."""
        rollback_commit(self._commit)


class HudiUpsertWriter(CommittingWriter):
    """One upsert or delete; its constructor begins the commit."""

    def __init__(self, prepared: PreparedWrite) -> None:
        """Begin the commit. Raises InvalidArgumentError for a global index."""
        index = prepared.options.index
        if index.is_global:
            raise InvalidArgumentError(
                f"df.write.format('hudi') looks keys up in the partition that a row names, not by the index "
                f"{index.kind.value}",
                hint=f"hudisql.write_table(df, 'db.table', '{prepared.operation}', …) does it",
            )
        self._prepared = prepared
        table = prepared.table
        self._schema = table.schema
        self._key_fields = table.properties.record_key_fields
        concurrency = prepared.options.concurrency
        self._commit = begin_commit(table, prepared.operation.upper(), concurrency=concurrency)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one task, the newest row of each key. Raises WriteRefusedError."""
        keyed = [self._with_keys(batch) for batch in complete_input(iterator) if batch.num_rows]
        sink = pa.BufferOutputStream()
        if keyed:
            rows = precombine_rows(pa.Table.from_batches(keyed), self._commit.table.ordering_fields)
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            with pa.ipc.new_stream(sink, rows.schema, options=options) as stream:
                stream.write_table(rows)
        sent = sink.getvalue()
        if sent.size > _MOST_BYTES:
            raise WriteRefusedError(
                f"df.write.format('hudi') looks keys up on Spark's driver, and one task has {sent.size} "
                f"bytes of rows, more than {_MOST_BYTES}; nothing was written",
                hint=f"hudisql.write_table(df, 'db.table', '{self._prepared.operation}') spreads the work",
            )
        return SentRows(sent.to_pybytes())

    def _with_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        named = batch.select(self._prepared.columns).rename_columns(self._schema.names)
        rows = conform_batch(named, self._schema)
        keyed, null_keys = with_keys(rows, self._commit.table, self._prepared.options, self._prepared.paths)
        if null_keys.count:
            raise null_key_error(self._key_fields, "", null_keys.count)
        return keyed

    def _files_of(self, messages: list[WriterCommitMessage | None]) -> Sequence[WrittenFile]:
        """Look up the keys, and write the file slices."""
        parts = [
            pa.ipc.open_stream(message.stream).read_all()
            for message in messages
            if isinstance(message, SentRows) and message.stream
        ]
        if not parts:
            return []
        return upsert_on_driver(
            self._commit,
            self._prepared.options,
            self._prepared.paths,
            pa.concat_tables(parts),
            deletes=self._prepared.operation == "delete",
        )


@dataclass(frozen=True)
class WrittenFiles(WriterCommitMessage):
    """The files that one task wrote."""

    files: tuple[WrittenFile, ...]


class HudiWriter(CommittingWriter):
    """One write; its constructor begins the commit."""

    def __init__(self, prepared: PreparedWrite) -> None:
        """Begin the commit. Raises InvalidArgumentError, UnsupportedTableError."""
        table, chosen = prepared.table, prepared.options
        if chosen.combines:
            raise InvalidArgumentError(
                f"df.write.format('hudi') does not redistribute rows, and cannot do {COMBINE_BEFORE_INSERT}",
                hint=f"hudisql.write_table(df, 'db.table', '{prepared.operation}', …) does it",
            )
        self._columns, self._paths = prepared.columns, prepared.paths
        self._overwrite = _LOADS[prepared.operation]
        operation_type = bulk_insert_operation_type(self._overwrite)
        self._commit = begin_commit(
            table, operation_type, replaces=self._overwrite is not None, concurrency=chosen.concurrency
        )
        self._schema = table.schema
        self._write_context = make_write_context(self._commit, chosen, table.schema, DEFAULT_CALENDARS)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task. Raises WriteRefusedError, WriteConflictError, StorageError."""
        from pyspark import TaskContext

        running = TaskContext.get()
        number, attempt = (0, 0) if running is None else (running.partitionId(), running.taskAttemptId())
        batches = (
            batch.select(self._columns).rename_columns(self._schema.names)
            for batch in complete_input(iterator)
        )
        files = bulk_insert_partition(
            self._write_context, self._paths, number, int(attempt), batches, most_open=_MOST_OPEN
        )
        return WrittenFiles(tuple(files))

    def _files_of(self, messages: list[WriterCommitMessage | None]) -> Sequence[WrittenFile]:
        files = [file for message in messages if isinstance(message, WrittenFiles) for file in message.files]
        self._paths.refuse_nested({file.partition_path for file in files})
        return files


def make_writer(
    storage: Storage, options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    """The writer of one `save`. Raises HudisqlError."""
    try:
        prepared = prepare_write(storage, options, schema, overwrite=overwrite)
        return HudiWriter(prepared) if prepared.operation in _LOADS else HudiUpsertWriter(prepared)
    except NotImplementedError as error:
        # Spark reports this class only as "cannot be written".
        raise HudisqlError(*error.args, hint=getattr(error, "hint", None)) from None
