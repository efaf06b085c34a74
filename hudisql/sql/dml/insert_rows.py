"""The rows of an INSERT: the query's columns as columns of the table, and what they overwrite.

Follows Spark's rules for PARTITION clauses, and Hudi's for `hoodie.spark.sql.insert.into.operation` and the
overwrite mode. It produces changes; other modules commit them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import COMBINE_BEFORE_INSERT
from hudisql.errors import SettingsError, WriteRefusedError
from hudisql.format.schema.internal_columns import internal_column
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.format.schema.spark_schema import quote_name, quote_path, spark_type_name
from hudisql.options.insert_options import (
    InsertDupPolicy,
    InsertOperation,
    insert_operation,
    overwrite_by_setting,
    overwrite_of_statement,
    overwrites_touched_partitions,
)
from hudisql.read.merge.merge_mode import merge_mode_of
from hudisql.read.merge.precombine import keep_newest
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.sql.dml.query_columns import assign_query_columns
from hudisql.sql.schema.store_assignment import store_cast, with_types
from hudisql.sql.text import clauses as cl
from hudisql.sql.text.mapped_sql import MappedSql
from hudisql.sql.text.spark_errors import SourceText, translated_spark_errors
from hudisql.sql.text.tokens import tokenize
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import COMBINED, LOCATION_COLUMNS, OPERATION, RowOperation
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.keygen.generated_paths import path_column
from hudisql.write.keygen.key_generator import KeyGenerator, generates_paths
from hudisql.write.keygen.new_row_keys import effective_operation
from hudisql.write.overwrite import Overwrite

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from hudisql.context import Context

_STAYS: Final = internal_column("stays")


@dataclass(frozen=True)
class RowsToInsert:
    """New rows, with only the table's columns, and how they are written.

    An insert also fills small files, an upsert replaces the rows with the same key and partition; a bulk
    insert writes rows without look-up, and may overwrite (None: nothing). With `combine_before_insert` only
    the newest of several rows with one key is written, as an upsert always does. `dup_policy` says what
    happens to rows whose key is stored.
    """

    rows: DataFrame
    operation: InsertOperation
    overwrite: Overwrite | None = None
    combine_before_insert: bool = False
    dup_policy: InsertDupPolicy = "none"


def rows_to_insert(
    context: Context,
    table: HudiTable,
    clauses: cl.InsertClauses,
    frame: DataFrame,
    table_label: str,
    settings: HudiConfig,
    options: WriteOptions,
    source: SourceText,
) -> RowsToInsert:
    """The rows of an INSERT, and how the settings say to write them.

    `table_label` names the table in errors, `source` is the statement. Raises WriteRefusedError,
    SettingsError, QueryError for a value of the PARTITION clause that is not a constant.
    """
    rows, static = _rows_of_table(context, table, clauses, frame, table_label, source)
    # Hudi's `ProvidesHoodieConfig` sets hoodie.combine.before.insert like this; its DataFrame writer does
    # not.
    properties = table.properties
    combine = bool(properties.ordering_fields) and not properties.generates_record_keys
    combine = combine if options.combines is None else options.combines
    # Only from the session, as in Hudi: a table's property of that name has no effect.
    session = HudiConfig(context.setting)
    overwrite = overwrite_by_setting(session)
    if clauses.overwrite:
        overwrite = overwrite_of_statement(session, _overwrite_of(settings, table, static), table_label)
    if overwrite is not None:
        return RowsToInsert(rows, "bulk_insert", overwrite, combine_before_insert=combine)
    operation = without_upsert(context, table, insert_operation(settings, session, table), table_label)
    return RowsToInsert(rows, operation, combine_before_insert=combine)


def without_upsert(
    context: Context, table: HudiTable, operation: InsertOperation, table_label: str
) -> InsertOperation:
    """The effective operation (`effective_operation`), with a warning if it differs from the given one.

    `table_label` names the table.
    """
    if effective_operation(table, operation) == operation:
        return operation
    context.console.warning(
        f"{table_label}: its record keys are generated, so the upsert adds all rows and replaces none; "
        "MERGE INTO … ON <condition> replaces rows"
    )
    return "insert"


def as_inserts(rows: DataFrame) -> DataFrame:
    """Rows of a table as changes that insert them."""
    from pyspark.sql import functions as sf

    return rows.select(
        sf.lit(int(RowOperation.INSERT)).cast("tinyint").alias(OPERATION),
        *(sf.lit(None).cast("string").alias(name) for name in LOCATION_COLUMNS),
        "*",
    )


def precombined_inserts(changes: DataFrame, table: HudiTable, generator: KeyGenerator | None) -> DataFrame:
    """The changes, without new rows that are older than another new row of their key and partition, and
    without those that equal another one.

    Rows with the same highest ordering values that differ in another column all stay, and rows of a table
    with maps, which cannot be compared. The column COMBINED counts the dropped rows.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    key = [sf.col(OPERATION), *_key_columns(table), *_place_columns(table, generator)]
    is_insert = sf.col(OPERATION) == int(RowOperation.INSERT)
    newest = keep_newest(
        changes,
        key,
        table.ordering_fields,
        table.schema,
        combined=COMBINED,
        only=is_insert,
        keeps_ties=True,
    )
    if any("map<" in spark_type_name(field.type) for field in table.schema):
        return newest
    row = sf.struct(*(sf.col(quote_name(name)) for name in table.schema.names))
    of_key = Window.partitionBy(*key).orderBy(sf.lit(0))
    is_first = sf.row_number().over(of_key) == 1
    differs = ~row.eqNullSafe(sf.first(row).over(of_key))
    return newest.withColumn(_STAYS, ~is_insert | is_first | differs).filter(sf.col(_STAYS)).drop(_STAYS)


def precombined_rows(rows: DataFrame, table: HudiTable, options: WriteOptions) -> DataFrame:
    """The newest of the new rows with one key (and partition, unless the index is global), by the ordering
    value; any one of equal ones.

    Follows `HoodieDatasetBulkInsertHelper.dedupeRows` of Hudi 0.15. The column COMBINED counts the dropped
    rows. Raises SettingsError if the table has no ordering column.
    """
    if not table.ordering_fields:
        raise SettingsError(
            f"{COMBINE_BEFORE_INSERT} is true, and {table.base_path} has no ordering column that says which "
            "of several rows with one key is the newest"
        )
    key = _key_columns(table)
    if not options.index.is_global:
        key += _place_columns(table, options.key_generator)
    return keep_newest(
        rows, key, table.ordering_fields, table.schema, combined=COMBINED, mode=merge_mode_of(table)
    )


def _key_columns(table: HudiTable) -> list[Column]:
    from pyspark.sql import functions as sf

    return [sf.col(quote_path(name)) for name in table.properties.record_key_fields]


def _place_columns(table: HudiTable, generator: KeyGenerator | None) -> list[Column]:
    """The columns that determine a row's partition."""
    from pyspark.sql import functions as sf

    if generator is not None:
        return [path_column(table, generator)]
    return [sf.col(quote_name(column.name)) for column in table.partition_columns]


def _rows_of_table(
    context: Context,
    table: HudiTable,
    clauses: cl.InsertClauses,
    frame: DataFrame,
    table_label: str,
    source: SourceText,
) -> tuple[DataFrame, Mapping[str, object]]:
    """The rows with the table's columns and types, and the typed values of the PARTITION clause."""
    from pyspark.sql import functions as sf

    # `SELECT *` from another Hudi table also returns meta columns.
    frame = frame.drop(*(name for name in frame.columns if is_meta_column(name)))
    static = {name.lower(): value for name, value in clauses.partition if value is not None}
    if static and clauses.overwrite and generates_paths(table):
        raise WriteRefusedError(
            f"INSERT OVERWRITE {table_label} PARTITION (…): a key generator makes the directories, so "
            "that no value of "
            "a column names a partition",
            hint="SET hoodie.datasource.overwrite.mode = dynamic, and overwrite without PARTITION: that "
            "replaces the partitions that get rows",
        )
    query_columns = assign_query_columns(
        table,
        clauses,
        static,
        frame.schema,
        table_label,
        case_sensitive=context.setting("spark.sql.caseSensitive", "false").lower() == "true",
    )
    if query_columns.moved:
        context.console.warning(
            f"INSERT into {table_label}: the query's columns go by their names, as in Apache Hudi, not by "
            f"position; that makes a difference for {', '.join(query_columns.moved)}. A list of columns, or "
            "BY NAME, says which is meant"
        )
    constants = _static_values(context, table, static, table_label, source)
    columns = {name.lower(): sf.col(f"c{number}") for number, name in enumerate(query_columns.names)}
    renamed = frame.toDF(*(f"c{number}" for number in range(len(query_columns.names))))
    values = [
        _static_column(context, static[field.name.lower()], field)
        if field.name.lower() in static
        else columns.get(field.name.lower(), sf.lit(None))
        for field in table.schema
    ]
    named = [value.alias(field.name) for value, field in zip(values, table.schema, strict=True)]
    chosen = renamed.select(*named)
    rows = with_types(
        context,
        chosen,
        table.schema,
        table_label,
        members_by_name=query_columns.members_by_name,
        lengths=table.properties.column_lengths,
    )
    return rows, constants


def _static_column(context: Context, value: cl.SourceSpan, field: pa.Field) -> Column:
    """The value of a PARTITION clause; as in Spark, a text is converted to the column's type."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StringType

    tokens = tokenize(value.text)
    is_text = len(tokens) == 1 and tokens[0].kind == "string"
    if not is_text:
        return sf.expr(value.text)
    wanted = spark_struct(pa.schema([field]))[0].dataType
    return store_cast(context, sf.expr(value.text), StringType(), wanted, field.name)


def _static_values(
    context: Context,
    table: HudiTable,
    static: Mapping[str, cl.SourceSpan],
    table_label: str,
    source: SourceText,
) -> dict[str, object]:
    """The PARTITION clause's values in the table's types."""
    values: dict[str, object] = {}
    for field in table.partition_columns:
        piece = static.get(field.name.lower())
        if piece is None:
            continue
        # No column is in scope: the value is a constant.
        with translated_spark_errors(MappedSql().add(piece).source(source)):
            value = _static_column(context, piece, field).alias(field.name)
            literals = context.spark.range(1).select().select(value)
            row = with_types(context, literals, pa.schema([field]), table_label).collect()[0]
        values[field.name] = _with_zone(row[0], field)
    return values


def _with_zone(value: object, column: pa.Field) -> object:
    """A collected value as the partitions of the table have it: Spark gives a TIMESTAMP without time zone,
    in that of this process.
    """
    has_zone = pa.types.is_timestamp(column.type) and column.type.tz is not None
    return value.astimezone(UTC) if has_zone and isinstance(value, datetime) else value


def _overwrite_of(settings: HudiConfig, table: HudiTable, static: Mapping[str, object]) -> Overwrite:
    fields = table.properties.partition_fields
    if fields and len(static) < len(fields) and overwrites_touched_partitions(settings):
        return Overwrite("touched")
    return Overwrite("matching", static) if static else Overwrite("table")
