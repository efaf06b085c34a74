"""Writes of DataFrames by a table's name, as PySpark's writers mean them: INSERT statements over the frame.

`insertInto` goes by position, the others by name. A new table is made as by `write_table`, with the rows of a
bulk insert, as Hudi's CREATE TABLE AS SELECT and `saveAsTable` do. Knows no PySpark writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING
from uuid import uuid4

from hudisql.bootstrap.lease.protected_sources import refuse_touching_sources
from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.config.hudi_config import COMBINE_BEFORE_INSERT
from hudisql.errors import InvalidArgumentError
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.format.schema.spark_schema import quote_name
from hudisql.sql.dataframe.frame_options import (
    OPERATION,
    check_agreement,
    read_frame_options,
)
from hudisql.sql.dataframe.write_frames import write_frame
from hudisql.sql.ddl.table_options import PARTITIONS
from hudisql.sql.dispatch import execute
from hudisql.sql.query.path_guard import directories_of
from hudisql.sql.query.target_table import open_hudi_entry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context


class Rows(Enum):
    """What becomes of the rows that the table has; the value is the statement and the operation, if any."""

    ADDED = ("INSERT INTO", None)
    OVERWRITTEN = ("INSERT OVERWRITE", None)
    REPLACED = ("INSERT OVERWRITE", "insert_overwrite_table")
    PARTITIONS_REPLACED = ("INSERT OVERWRITE", "insert_overwrite")


def insert_frame(
    context: Context,
    frame: DataFrame,
    entry: MetastoreTable,
    options: Mapping[str, str],
    rows: Rows,
    *,
    by_name: bool = True,
) -> None:
    """Run INSERT INTO or INSERT OVERWRITE of the frame's rows; meta columns are left out.

    `options` have Hudi's names: settings of this write, and properties of the table, which must agree with
    those it has. Raises InvalidArgumentError, and what INSERT raises.
    """
    verb, own_operation = rows.value
    operation = own_operation or _operation_of(options)
    given = read_frame_options(own_operation, options)
    if given.definition or given.path is not None:
        check_agreement(given, open_hudi_entry(context, entry), entry.full_name)
    settings = {**given.settings, **({} if operation is None else {OPERATION: operation})}
    if rows is Rows.REPLACED and context.setting(COMBINE_BEFORE_INSERT.name, "") == "":
        # As the bulk insert that makes a table.
        settings.setdefault(COMBINE_BEFORE_INSERT.name, "false")
    if by_name:
        _check_complete(frame, entry)
    chosen = frame.drop(*(column for column in frame.columns if is_meta_column(column)))
    view = f"__hudisql_rows_{uuid4().hex[:8]}"
    order = " BY NAME" if by_name else ""
    target = f"{quote_name(entry.database)}.{quote_name(entry.name)}"
    chosen.createOrReplaceTempView(view)
    try:
        with context.with_session_settings(settings):
            execute(context, f"{verb} {target}{order} SELECT * FROM {view}")
    finally:
        context.spark.catalog.dropTempView(view)


def _check_complete(frame: DataFrame, entry: MetastoreTable) -> None:
    """Raise InvalidArgumentError if the frame lacks a column, as Spark's writers by name do.

    It would become NULL, in rows that the table has, too.
    """
    given = {column.lower() for column in frame.columns}
    for column in (*entry.columns, *entry.partition_columns):
        if column.name.lower() not in given and not is_meta_column(column.name):
            raise InvalidArgumentError(
                f"the rows have no column {column.name}, which {entry.full_name} has: nothing was written",
                hint=f"df.withColumn('{column.name}', lit(None)) writes NULL",
            )


def refuse_deleting_sources(context: Context, entry: MetastoreTable | None, method: str) -> None:
    """Raise SourceProtectedError if overwriting a plain table deletes files of a bootstrap's source.

    Raises MetastoreError.
    """
    refuse_touching_sources(context, directories_of(context, entry), f"{method} would delete files")


def create_from_frame(context: Context, frame: DataFrame, name: str, options: Mapping[str, str]) -> None:
    """Make a Hudi table of the frame's columns and rows: a bulk insert, unless the options name another one.

    Raises HudisqlError and its subclasses.
    """
    operation = None if _operation_of(options) is not None else "bulk_insert"
    write_frame(context, frame, name, operation, options)


def with_partitions(options: Mapping[str, str], columns: list[str]) -> dict[str, str]:
    """The options with the columns of `partitionBy`. Raises InvalidArgumentError if they contradict."""
    if not columns:
        return dict(options)
    named = ",".join(columns)
    for name, value in options.items():
        if name.lower() in PARTITIONS and value.replace(" ", "").lower() != named.lower():
            raise InvalidArgumentError(
                f"partitionBy names {named}, but {name} = '{value}'", hint="leave one of them out"
            )
    others = {name: value for name, value in options.items() if name.lower() not in PARTITIONS}
    return {**others, PARTITIONS[0]: named}


def _operation_of(options: Mapping[str, str]) -> str | None:
    return next((str(value) for name, value in options.items() if name.lower() == OPERATION), None)
