"""`df.write.format("hudi").mode("append")` by Hudi's default: upserts, and deletes, by record key.

A Python data source's tasks get rows in Spark's partitions, and its commit runs in a process without a
SparkSession. So the tasks send their rows to that process, which looks up the keys and writes the file
slices: for as many rows as fit on the driver. `hudisql.write_table` does the same by Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from hudisql.errors import InvalidArgumentError, WriteRefusedError
from hudisql.read.files.conform import conform_batch
from hudisql.spark.python_worker import complete_input
from hudisql.write.execution.commit_files import finish_commit
from hudisql.write.execution.driver_upsert import precombine_rows, upsert_on_driver, with_keys
from hudisql.write.keygen.new_row_keys import null_key_error
from hudisql.write.transaction.commit import OpenCommit, begin_commit, rollback_commit
from pyspark_hudisql.prepared_write import PreparedWrite

# The most bytes that a task may send: Spark pickles them several times.
_MOST_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class SentRows(WriterCommitMessage):
    """The rows of one task with their keys and partitions, as a compressed Arrow stream."""

    stream: bytes


class HudiUpsertWriter(DataSourceArrowWriter):
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
        self._commit: OpenCommit = begin_commit(table, prepared.operation.upper(), concurrency=concurrency)

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

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Look up the keys, write, and make the commit visible.

        Raises WriteRefusedError, WriteConflictError, StorageError; the written files are then deleted.
        """
        try:
            parts = [
                pa.ipc.open_stream(message.stream).read_all()
                for message in messages
                if isinstance(message, SentRows) and message.stream
            ]
            files = []
            if parts:
                files = upsert_on_driver(
                    self._commit,
                    self._prepared.options,
                    self._prepared.paths,
                    pa.concat_tables(parts),
                    deletes=self._prepared.operation == "delete",
                )
            finish_commit(self._commit, files, self._schema, None)
        except BaseException:
            rollback_commit(self._commit)
            raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Roll the commit back. Raises StorageError."""
        rollback_commit(self._commit)
