"""The checks of a `df.write.format("hudi")` before its commit begins, and their result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import ALLOW_DUPLICATES
from hudisql.errors import InvalidArgumentError, WriteRefusedError
from hudisql.format.schema.meta_columns import IS_DELETED, PARTITION_PATH, RECORD_KEY, is_meta_column
from hudisql.format.schema.spark_schema import arrow_from_spark_json, spark_type_name
from hudisql.format.schema.type_widening import is_safe_widening
from hudisql.options.insert_options import (
    INSERT_OPERATIONS,
    InsertOperation,
    insert_dup_policy,
    merges_inserts,
)
from hudisql.options.known_settings import refuse_misspelt_options
from hudisql.options.writer_settings import write_options_by
from hudisql.sql.dataframe.frame_options import LOADS, FrameOptions, check_agreement, read_frame_options
from hudisql.sql.dml.schema_evolution import describe_difference, evolved_table
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.execution.bulk_insert import slices_until_known
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.bucket_index import check_bucket_index_declared
from hudisql.write.keygen.new_row_keys import effective_operation
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.overwrite import Overwrite
from hudisql.write.transaction.concurrency import Concurrency, FailedWrites
from hudisql.write.transaction.writable_tables import check_writable
from pyspark_hudisql.metastore_sync import SyncTarget, sync_target
from pyspark_hudisql.new_tables import make_missing_table, remove_made_table

_WHOLE_TABLE: Final = "insert_overwrite_table"
_STORAGE_KEYS: Final = ("fs.", "dfs.")
_BY_KEY: Final = ("upsert", "delete")
_OLD_TYPE: Final = "hoodie.datasource.write.storage.type"
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


@dataclass(frozen=True)
class PreparedWrite:
    """A write that fits its table, which has the schema that the commit gives it.

    `columns` are the names of the rows' columns by those of the table. With `upserts` rows of one key are
    combined. Rows marked as deleted are left out unless the write `takes_marked` rows, as Hudi's bulk inserts
    do. With `by_stored_keys` the rows carry the record keys
    and partition paths of stored rows, as they were read. `is_new` is true for a table that the write has
    made.
    """

    operation: str
    table: HudiTable
    columns: Mapping[str, str]
    options: WriteOptions
    paths: PartitionPaths
    upserts: bool
    by_stored_keys: bool
    is_new: bool
    sync: SyncTarget | None
    takes_marked: bool = False

    @property
    def by_key(self) -> bool:
        """True if rows are written by their keys."""
        return self.operation in _BY_KEY

    @property
    def overwrite(self) -> Overwrite | None:
        """What the rows replace; None if they are added or written by key."""
        return LOADS.get(self.operation)

    def without_marked(self, rows: Rows) -> Rows:
        """The rows that are not marked as deleted. Raises WriteRefusedError if the mark is not a boolean."""
        if self.takes_marked or IS_DELETED not in rows.schema.names:
            return rows
        mark = rows.column(IS_DELETED)
        if not pa.types.is_boolean(mark.type):
            raise WriteRefusedError(
                f"{IS_DELETED} of the rows for {self.table.base_path} is not a boolean: {mark.type}"
            )
        return cast(Rows, rows.filter(pc.invert(pc.fill_null(mark, False))))


def prepare_write(
    storage: Storage, options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> PreparedWrite:
    """The write that the options ask for; a missing table is made. Raises HudisqlError."""
    refuse_misspelt_options(options)
    path = _path_of(storage, options)
    given = read_frame_options(
        None, {k: v for k, v in options.items() if not k.lower().startswith(_STORAGE_KEYS)}
    )
    if overwrite and given.operation == "delete":
        raise InvalidArgumentError(
            "mode('overwrite') replaces the whole table, but the operation is 'delete'",
            hint="mode('append') deletes the rows by their keys",
        )
    is_new = make_missing_table(storage, path, given, schema)
    try:
        return _prepare(open_table(storage, path), given, schema, is_new=is_new, overwrites=overwrite)
    except BaseException:
        if is_new:
            remove_made_table(storage, path)
        raise


def _prepare(
    table: HudiTable, given: FrameOptions, schema: StructType, *, is_new: bool, overwrites: bool
) -> PreparedWrite:
    check_agreement(given, table, table.name)
    check_writable(table)
    settings = {name.lower(): value for name, value in given.settings.items()}
    config = HudiConfig(settings.get, settings.keys)
    by_stored_keys = _has_stored_keys(table, schema) and given.operation in _BY_KEY and not overwrites
    operation = given.operation if by_stored_keys else effective_operation(table, given.operation)
    # Hudi upserts also into the table that mode("overwrite") makes again.
    upserts = operation == "upsert" and not table.properties.generates_record_keys
    if overwrites and not is_new:
        operation = _WHOLE_TABLE
    if operation != "delete":
        table = evolved_table(config, table, schema, table.base_path)
    columns = _columns_of(table, schema)
    chosen = write_options_by(config, table)
    chosen = replace(chosen, concurrency=_of_several_processes(chosen.concurrency))
    _refuse_what_needs_a_session(table, config, chosen, given.operation)
    if not (overwrites or is_new):
        _refuse_merged_inserts(table, config, given.operation)
    _check_storage_type(table, given)
    check_bucket_index_declared(table, slices_until_known(table))
    return PreparedWrite(
        operation,
        table,
        columns,
        chosen,
        PartitionPaths(table, chosen.key_generator),
        upserts,
        by_stored_keys,
        is_new,
        sync_target(given.settings, table.name),
        given.operation == "bulk_insert",
    )


def refuse_unreadable_paths(table: HudiTable, paths: Iterable[str]) -> None:
    """Raise WriteRefusedError for directories of partition values that readers of Apache Hudi take wrong."""
    if table.properties.url_encode_partitioning:
        return
    marks = "%:" if table.properties.hive_style_partitioning else "%:="
    for path in paths:
        if any(mark in path for mark in marks):
            raise WriteRefusedError(
                f"the partition '{path}' of {table.base_path} has a character of '{marks}' in a value, which "
                "readers of Apache Hudi take for something else",
                hint="make the table with hoodie.datasource.write.partitionpath.urlencode = true",
            )


def _refuse_what_needs_a_session(
    table: HudiTable, config: HudiConfig, options: WriteOptions, operation: str
) -> None:
    if (
        operation in INSERT_OPERATIONS
        and insert_dup_policy(config, table, cast(InsertOperation, operation), is_sql=False) != "none"
    ):
        raise WriteRefusedError(
            f"{table.base_path}: this writer follows no policy for rows whose record key is stored",
            hint="use hudisql.write_table(df, table, **options)",
        )
    if options.index.buckets is not None:
        raise WriteRefusedError(
            f"{table.base_path} has a bucket index, which this writer does not support",
            hint="use hudisql.write_table(df, table, **options)",
        )


def _refuse_merged_inserts(table: HudiTable, config: HudiConfig, operation: str) -> None:
    if operation in INSERT_OPERATIONS and merges_inserts(config, table, cast(InsertOperation, operation)):
        raise WriteRefusedError(
            f"{table.base_path}: {ALLOW_DUPLICATES} = false is not supported by this writer, whose inserts "
            "go to new files",
            hint="use hudisql.write_table(df, table, **options)",
        )


def _check_storage_type(table: HudiTable, given: FrameOptions) -> None:
    """Raise InvalidArgumentError for the old name of the table type with another type."""
    values = {name.lower(): value for name, value in given.settings.items()}
    wanted = values.get(_OLD_TYPE, table.properties.table_type)
    if wanted.upper() != table.properties.table_type:
        raise InvalidArgumentError(
            f"{_OLD_TYPE} = {wanted}, but the table is {table.properties.table_type}",
            hint="hoodie.datasource.write.table.type chooses the type of a new table",
        )


def _has_stored_keys(table: HudiTable, schema: StructType) -> bool:
    """True for rows as a reader gave them, of a table whose record keys are generated."""
    return table.properties.generates_record_keys and {RECORD_KEY, PARTITION_PATH} <= set(schema.names)


def _of_several_processes(concurrency: Concurrency) -> Concurrency:
    """The same without heartbeats, which need one process that runs during the whole write: there is none."""
    if concurrency.names_lock or concurrency.failed_writes is not FailedWrites.EAGER:
        raise InvalidArgumentError(
            "df.write.format('hudi') uses neither locks nor heartbeats: it is for tables with one writer",
            hint="hudisql.write_table(df, 'db.table') uses them",
        )
    return replace(concurrency, has_heartbeats=False)


def _path_of(storage: Storage, options: Mapping[str, str]) -> str:
    path = options.get("path")
    if not path:
        raise InvalidArgumentError(
            "the hudi data source got no path",
            hint="hudisql.install(spark) lets df.write.insertInto and saveAsTable write Hudi tables by name; "
            "without it hudisql.write_table(df, '<name>'), or df.write.format('hudi')….save('<location>')",
        )
    return storage.qualify(path)


def _columns_of(table: HudiTable, schema: StructType) -> dict[str, str]:
    """The rows' columns by the names of the table's. Raises WriteRefusedError for other types."""
    wanted = {field.name.lower(): field for field in table.schema}
    fields = [field for field in schema if field.name.lower() in wanted and not is_meta_column(field.name)]
    given = arrow_from_spark_json(StructType(fields).json())
    for field in given:
        own = wanted[field.name.lower()].type
        is_same = spark_type_name(field.type) == spark_type_name(own)
        if not is_same and not is_safe_widening(field.type, own):
            raise WriteRefusedError(
                f"df.write.format('hudi') takes the table's columns with its types: "
                f"{describe_difference(table, schema)}",
                hint="hudisql.write_table(df, 'db.table') casts",
            )
    columns = {wanted[field.name.lower()].name: field.name for field in fields}
    named = {field.split(".")[0].lower() for field in _needed(table)}
    missing = sorted(named - {name.lower() for name in columns})
    if missing:
        raise WriteRefusedError(
            f"the rows for {table.base_path} lack the key or partition column '{missing[0]}'"
        )
    return columns


def _needed(table: HudiTable) -> tuple[str, ...]:
    return (*table.properties.record_key_fields, *table.properties.partition_fields)


def table_rows(batch: pa.RecordBatch, columns: Mapping[str, str], schema: pa.Schema) -> pa.RecordBatch:
    """The rows with the table's names, in its order; columns that they lack are null."""
    arrays = [
        batch.column(columns[field.name]) if field.name in columns else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)
