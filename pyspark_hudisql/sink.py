"""Writing by `df.write.format("hudi")` on plain PySpark: one commit of new rows in new file groups.

Follows PySpark's `DataSourceArrowWriter`: created in a process of Spark's driver, pickled into tasks, and
committed or aborted in another process. Such a writer gets rows in Spark's partitions and has neither
SparkSession nor metastore. This module inserts and overwrites; `source_upsert` finds stored rows. Only
`hudisql.write_table` creates tables or changes columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hudisql.config.hudi_config import COMBINE_BEFORE_INSERT
from hudisql.errors import HudisqlError, InvalidArgumentError
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.spark.python_worker import complete_input
from hudisql.sql.dataframe.frame_options import (
    LOADS,
)
from hudisql.storage import Storage
from hudisql.write.execution.bulk_insert import bulk_insert_partition
from hudisql.write.execution.commit_files import finish_commit
from hudisql.write.execution.write_context import WrittenFile, make_write_context
from hudisql.write.overwrite import Overwrite, bulk_insert_operation_type
from hudisql.write.transaction.commit import OpenCommit, begin_commit, rollback_commit
from pyspark_hudisql.prepared_write import PreparedWrite, prepare_write
from pyspark_hudisql.source_upsert import HudiUpsertWriter

_LOADS: Final[Mapping[str, Overwrite | None]] = {"insert": None, **LOADS}
# Rows come in any order: the number of table partitions that are written at the same time.
_MOST_OPEN: Final = 8


@dataclass(frozen=True)
class WrittenFiles(WriterCommitMessage):
    """The files that one task wrote."""

    files: tuple[WrittenFile, ...]


class HudiWriter(DataSourceArrowWriter):
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
        self._commit: OpenCommit = begin_commit(
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

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the files visible. Raises WriteConflictError, StorageError; the written files are deleted."""
        files = [file for message in messages if isinstance(message, WrittenFiles) for file in message.files]
        try:
            self._paths.refuse_nested({file.partition_path for file in files})
            finish_commit(self._commit, files, self._schema, self._overwrite)
        except BaseException:
            rollback_commit(self._commit)
            raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Roll the commit back: delete the files that markers name. Raises StorageError."""
        rollback_commit(self._commit)


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
