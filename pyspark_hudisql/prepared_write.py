"""The checks of a `df.write.format("hudi")` before its commit begins, and their result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from pyspark.sql.types import StructType

from hudisql.config.config_key import HudiConfig
from hudisql.errors import InvalidArgumentError, WriteRefusedError
from hudisql.options.insert_options import INSERT_OPERATIONS, InsertOperation, insert_dup_policy
from hudisql.options.known_settings import refuse_misspelt_options
from hudisql.options.writer_settings import write_options_by
from hudisql.sql.dataframe.frame_options import (
    OPERATION,
    OPERATIONS,
    check_agreement,
    read_frame_options,
)
from hudisql.sql.dml.schema_evolution import describe_difference, evolved_schema
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.execution.bulk_insert import slices_until_known
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.bucket_index import check_bucket_index_declared
from hudisql.write.keygen.new_row_keys import effective_operation
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.transaction.commit import check_writable
from hudisql.write.transaction.concurrency import Concurrency, FailedWrites

_WHOLE_TABLE: Final = "insert_overwrite_table"
_STORAGE_KEYS: Final = ("fs.", "dfs.")


@dataclass(frozen=True)
class PreparedWrite:
    """A write that fits its table; `columns` are the rows' columns in the order of the table's."""

    operation: str
    table: HudiTable
    columns: list[str]
    options: WriteOptions
    paths: PartitionPaths


def prepare_write(
    storage: Storage, options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> PreparedWrite:
    """The write that the options ask for. Raises HudisqlError."""
    refuse_misspelt_options(options)
    table = _open_root(storage, options)
    operation = effective_operation(table, _operation_of(options, overwrite=overwrite))
    given = read_frame_options(
        operation, {k: v for k, v in options.items() if not k.lower().startswith(_STORAGE_KEYS)}
    )
    check_agreement(given, table, table.name)
    check_writable(table)
    columns = _columns_of(table, schema)
    settings = {name.lower(): value for name, value in given.settings.items()}

    config = HudiConfig(settings.get)
    chosen = write_options_by(config, table)
    chosen = replace(chosen, concurrency=_of_several_processes(chosen.concurrency))
    if (
        operation in INSERT_OPERATIONS
        and insert_dup_policy(config, table, cast(InsertOperation, operation), is_sql=False) != "none"
    ):
        raise WriteRefusedError(
            f"{table.base_path}: this writer follows no policy for rows whose record key is stored",
            hint="use hudisql.write_table(df, table, **options)",
        )
    if chosen.index.buckets is not None:
        raise WriteRefusedError(
            f"{table.base_path} has a bucket index, which this writer does not support",
            hint="use hudisql.write_table(df, table, **options)",
        )
    paths = PartitionPaths(table, chosen.key_generator)
    check_bucket_index_declared(table, slices_until_known(table))
    return PreparedWrite(operation, table, columns, chosen, paths)


def _of_several_processes(concurrency: Concurrency) -> Concurrency:
    """The same without heartbeats, which need one process that runs during the whole write: there is none."""
    if concurrency.names_lock or concurrency.failed_writes is not FailedWrites.EAGER:
        raise InvalidArgumentError(
            "df.write.format('hudi') uses neither locks nor heartbeats: it is for tables with one writer",
            hint="hudisql.write_table(df, 'db.table') uses them",
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
            hint="mode('append') works with every operation",
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


def _columns_of(table: HudiTable, schema: StructType) -> list[str]:
    """The rows' columns in the order of the table's."""
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
    from hudisql.read.scan.arrow_scan import spark_struct

    wanted = {field.name.lower(): field.dataType.simpleString() for field in spark_struct(table.schema)}
    return all(
        wanted[field.name.lower()] == field.dataType.simpleString()
        for field in schema
        if field.name.lower() in wanted
    )
