"""Writing by `df.write.format("hudi")` on plain PySpark: one commit of new rows in new file groups.

It follows PySpark's `DataSourceArrowWriter`: made in a process of Spark's driver, pickled into tasks, and
committed or aborted in another process. Such a writer gets the rows where Spark has them, sees neither
SparkSession nor metastore. Here it loads and overwrites; `upsert` has what must find stored rows. Whatever
makes a table or changes its columns is `hudisql.write_table`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hudisql.errors import HudisqlError, InvalidArgumentError, WriteRefusedError
from hudisql.hudi_config import COMBINE_BEFORE_INSERT, HudiConfig
from hudisql.read.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.spark.python_worker import complete_input
from hudisql.sql.config.insert_options import check_insert_dup_policy
from hudisql.sql.config.known_settings import refuse_misspelt_options
from hudisql.sql.config.writer_settings import write_options_by
from hudisql.sql.dataframe.frame_options import (
    LOADS,
    OPERATION,
    OPERATIONS,
    check_agreement,
    read_frame_options,
)
from hudisql.sql.dml.schema_evolution import describe_difference, evolved_schema
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.execution.bulk_insert import bulk_insert_partition, slices_until_known
from hudisql.write.execution.commit_files import finish_commit
from hudisql.write.execution.write_context import WrittenFile, make_write_context
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.bucket_index import check_bucket_index_declared
from hudisql.write.keygen.new_row_keys import effective_operation
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.overwrite import Overwrite, bulk_insert_operation_type
from hudisql.write.transaction.commit import OpenCommit, begin_commit, check_writable, rollback_commit
from hudisql.write.transaction.concurrency import Concurrency, FailedWrites

_LOADS: Final[Mapping[str, Overwrite | None]] = {"insert": None, **LOADS}
# Rows come in any order: so many partitions of the table are written side by side.
_MOST_OPEN: Final = 8
_WHOLE_TABLE: Final = "insert_overwrite_table"


@dataclass(frozen=True)
class PreparedWrite:
    """A write that agrees with its table; `columns` are the rows' in the order of the table's."""

    operation: str
    table: HudiTable
    columns: list[str]
    options: WriteOptions
    paths: PartitionPaths


@dataclass(frozen=True)
class WrittenFiles(WriterCommitMessage):
    """What one task wrote."""

    files: tuple[WrittenFile, ...]


class HudiWriter(DataSourceArrowWriter):
    """One write; making it begins its commit."""

    def __init__(self, prepared: PreparedWrite) -> None:
        """Raises InvalidArgumentError, and what `begin_commit` raises."""
        table, chosen = prepared.table, prepared.options
        if chosen.combines:
            raise InvalidArgumentError(
                f"df.write.format('hudi') gets rows where they are, and cannot do {COMBINE_BEFORE_INSERT}",
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
        files = [file for each in messages if isinstance(each, WrittenFiles) for file in each.files]
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
    from pyspark_hudisql.upsert import HudiUpsertWriter

    try:
        prepared = _prepare(storage, options, schema, overwrite=overwrite)
        return HudiWriter(prepared) if prepared.operation in _LOADS else HudiUpsertWriter(prepared)
    except NotImplementedError as error:
        # Spark takes this class for "cannot be written" and says nothing else.
        raise HudisqlError(*error.args, hint=getattr(error, "hint", None)) from None


def _prepare(
    storage: Storage, options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> PreparedWrite:
    refuse_misspelt_options(options)
    table = _open_root(storage, options)
    operation = effective_operation(table, _operation_of(options, overwrite=overwrite))
    given = read_frame_options(operation, {k: v for k, v in options.items() if not _is_of_storage(k)})
    check_agreement(given, table, table.name)
    check_writable(table)
    columns = _columns_of(table, schema)
    settings = {name.lower(): value for name, value in given.settings.items()}

    config = HudiConfig(settings.get)
    chosen = write_options_by(config, table)
    chosen = replace(chosen, concurrency=_of_several_processes(chosen.concurrency))
    check_insert_dup_policy(config)
    if chosen.index.buckets is not None:
        raise WriteRefusedError(
            f"{table.base_path} has a bucket index, whose file groups this writer does not look for",
            hint="use hudisql.write_table(df, table, **options)",
        )
    paths = PartitionPaths(table, chosen.key_generator)
    check_bucket_index_declared(table, slices_until_known(table, list(paths.existing.values())))
    return PreparedWrite(operation, table, columns, chosen, paths)


def _of_several_processes(concurrency: Concurrency) -> Concurrency:
    """The same without heartbeats, which need one process that lives as long as the write: there is none.

    Raises InvalidArgumentError for tables whose writers rely on them.
    """
    if concurrency.names_lock or concurrency.failed_writes is not FailedWrites.EAGER:
        raise InvalidArgumentError(
            "df.write.format('hudi') has no part in locks and heartbeats: it is for tables with one writer",
            hint="hudisql.write_table(df, 'db.table') shares the table",
        )
    return replace(concurrency, has_heartbeats=False)


def _operation_of(options: Mapping[str, str], *, overwrite: bool) -> str:
    """Hudi's default is upsert; mode("overwrite") replaces the table's rows."""
    named = options.get(OPERATION)
    operation = (named or (_WHOLE_TABLE if overwrite else "upsert")).strip().lower()
    if operation not in OPERATIONS:
        raise InvalidArgumentError(
            f"there is no operation '{operation}'", hint=f"the operations are {', '.join(OPERATIONS)}"
        )
    if overwrite and operation != _WHOLE_TABLE:
        raise InvalidArgumentError(
            f"mode('overwrite') replaces the whole table, but {OPERATION} = '{operation}'",
            hint="mode('append') goes with every operation",
        )
    return operation


def _open_root(storage: Storage, options: Mapping[str, str]) -> HudiTable:
    path = options.get("path")
    if not path:
        raise InvalidArgumentError(
            "the hudi data source got no path",
            hint="df.write.format('hudi')….save('<location>'), or hudisql.write_table(df, '<name>')",
        )
    table = open_table(storage, path)
    if table.base_path != storage.qualify(path):
        raise InvalidArgumentError(
            f"{path} lies in the Hudi table at {table.base_path}", hint="save to the table itself"
        )
    return table


def _is_of_storage(name: str) -> bool:
    return name.lower().startswith(("fs.", "dfs."))


def _columns_of(table: HudiTable, schema: StructType) -> list[str]:
    """The rows' columns in the order of the table's. Raises WriteRefusedError if they are not the same."""
    fits = evolved_schema(table, schema, table.base_path).equals(table.schema)
    given = {field.name.lower(): field.name for field in schema}
    columns = [given[name.lower()] for name in table.schema.names if name.lower() in given]
    if not fits or len(columns) < len(table.schema) or not _same_types(table, schema):
        raise WriteRefusedError(
            f"df.write.format('hudi') takes the table's columns with its types: "
            f"{describe_difference(table, schema)}",
            hint="hudisql.write_table(df, 'db.table') casts, fills in nulls and adds columns",
        )
    return columns


def _same_types(table: HudiTable, schema: StructType) -> bool:
    from hudisql.read.arrow_scan import spark_struct

    wanted = {field.name.lower(): field.dataType.simpleString() for field in spark_struct(table.schema)}
    return all(
        wanted[field.name.lower()] == field.dataType.simpleString()
        for field in schema
        if field.name.lower() in wanted
    )
