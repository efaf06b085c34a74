"""New rows whose record keys are stored already: they are refused or left out.

For new rows of a MERGE, whose condition may be on other columns, and for INSERTs by their policy. The index
finds the keys as for an upsert: in the partitions of the rows, or in the whole table for a global index.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from hudisql.errors import WriteRefusedError
from hudisql.format.schema.spark_schema import quote_name
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import FILE_GROUP, OPERATION, PARTITION, RECORD_KEY, RowOperation
from hudisql.write.execution.upsert import incoming_rows, refuse_keys_of_registered, with_record_keys
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.key_lookup import STORED_GROUP, STORED_KEY, STORED_PARTITION, locate_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN_KEYS: Final = 3
_KEY_AND_PARTITION: Final = {RECORD_KEY: STORED_KEY, PARTITION: STORED_PARTITION}
_HINTS: Final = {
    "INSERT": "hoodie.datasource.insert.dup.policy = drop leaves such rows out, none adds or replaces them",
    "MERGE": "the condition does not match the stored rows of these keys: let ON compare {} alone, with <=> "
    "where a column may be NULL, and put further conditions behind WHEN",
}


_Statement = Literal["INSERT", "MERGE"]


def refuse_stored_keys(
    spark: SparkSession,
    table: HudiTable,
    changes: DataFrame,
    options: WriteOptions,
    resources: ExitStack,
    *,
    where_null: Sequence[str] = (),
    statement: _Statement = "MERGE",
) -> None:
    """Raise WriteRefusedError if the changes insert a row whose record key is already stored.

    With `where_null` only rows that are NULL in one of these columns are looked up. Stored rows that the
    changes delete or move are ignored. `changes` are computed several times, so they should be cached;
    incoming keys stay cached until `resources` is closed. Raises RegisterOnlyError if the keys may be in
    register-only partitions.
    """
    from pyspark.sql import functions as sf

    inserted = changes.filter(sf.col(OPERATION) == int(RowOperation.INSERT))
    if where_null:
        inserted = inserted.filter(reduce(or_, [sf.col(quote_name(name)).isNull() for name in where_null]))
    stored = _stored_keys(spark, table, inserted, options, resources)
    if stored is None:
        return
    removes = sf.col(OPERATION).isin(int(RowOperation.DELETE), int(RowOperation.MOVE_OUT))
    removed = changes.filter(removes).select(
        sf.col(RECORD_KEY).alias(STORED_KEY),
        sf.col(PARTITION).alias(STORED_PARTITION),
        sf.col(FILE_GROUP).alias(STORED_GROUP),
    )
    frame = stored.join(removed, [STORED_KEY, STORED_PARTITION, STORED_GROUP], "left_anti")
    keys = frame.select(STORED_KEY).distinct().orderBy(STORED_KEY).limit(_SHOWN_KEYS + 1).collect()
    if keys:
        shown = ", ".join(f"'{row[0]}'" for row in keys[:_SHOWN_KEYS]) + " …" * (len(keys) > _SHOWN_KEYS)
        raise WriteRefusedError(
            f"rows that the {statement} inserts into {table.base_path} have record keys that are stored: "
            f"{shown}; nothing was written",
            hint=_HINTS[statement].format(", ".join(table.properties.record_key_fields)),
        )


def drop_stored_keys(
    spark: SparkSession, table: HudiTable, rows: DataFrame, options: WriteOptions, resources: ExitStack
) -> DataFrame:
    """The rows whose record key is not stored; several rows of one new key all stay.

    `rows` are computed several times, so they should be cached; incoming keys stay cached until `resources`
    is closed. Follows `DataSourceUtils.dropDuplicates` of Hudi. Raises as `refuse_stored_keys`.
    """
    stored = _stored_keys(spark, table, rows, options, resources)
    if stored is None:
        return rows
    place = {RECORD_KEY: STORED_KEY} if options.index.is_global else _KEY_AND_PARTITION
    known = stored.select(*[stored[name].alias(key) for key, name in place.items()]).distinct()
    keyed = with_record_keys(table, rows, options)
    return keyed.join(known, list(place), "left_anti").select(*map(quote_name, rows.columns))


def _stored_keys(
    spark: SparkSession, table: HudiTable, inserted: DataFrame, options: WriteOptions, resources: ExitStack
) -> DataFrame | None:
    """The stored keys of the rows with their locations; None if there are no rows."""
    from pyspark.sql import functions as sf

    rows = inserted.select(*map(quote_name, table.schema.names))
    if table.properties.has_register_only_partitions:
        refuse_keys_of_registered(table, rows, options)
    incoming = incoming_rows(table, rows, options)
    if incoming.few is not None and not incoming.few.num_rows:
        return None
    resources.callback(incoming.release)
    located, _ = locate_keys(spark, table, incoming, options.index, pa.schema([]))
    is_stored = sf.col(RECORD_KEY) == sf.col(STORED_KEY)
    if not options.index.is_global:
        is_stored = is_stored & (sf.col(PARTITION) == sf.col(STORED_PARTITION))
    return incoming.frame.join(located, is_stored).select(STORED_KEY, STORED_PARTITION, STORED_GROUP)
