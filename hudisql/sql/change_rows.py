"""INSERT, UPDATE, DELETE and MERGE on Hudi tables: the statement's query is run and its rows are committed.

text → clauses → one SELECT (`change_queries`) → changes with the table's types → `write.apply` → metastore.
Casts follow Spark's ANSI store assignment, and the statements mean what standard SQL says where Hudi's own
differ from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudisql.catalog.sync import sync_table
from hudisql.catalog.tables import MetastoreTable, is_read_optimized
from hudisql.errors import UnsupportedStatementError, WriteRefusedError
from hudisql.format.spark_schema import spark_type_name
from hudisql.read.arrow_scan import spark_struct
from hudisql.result import LocalResult, Result
from hudisql.sql import clauses as cl
from hudisql.sql import query
from hudisql.sql import statements as st
from hudisql.sql.change_queries import (
    ACTION,
    OLD_VALUE,
    ChangeQuery,
    delete_query,
    insert_query,
    merge_query,
    source_query,
    update_query,
)
from hudisql.sql.composed_text import ComposedText
from hudisql.sql.relations import TableBinder
from hudisql.sql.spark_errors import SourceText
from hudisql.sql.tables import open_hudi_entry
from hudisql.sql.write_options import insert_operation, syncs_after_commit, write_options
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.apply import WriteResult, apply_changes
from hudisql.write.changes import (
    CHANGE_COLUMNS,
    FILE_GROUP,
    OPERATION,
    PARTITION,
    RECORD_KEY,
    Operation,
    change_schema,
)
from hudisql.write.commit import check_writable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from hudisql.context import Context

OUTPUT: Final = (
    ("instant", "string"),
    ("rows_inserted", "bigint"),
    ("rows_updated", "bigint"),
    ("rows_deleted", "bigint"),
    ("rows_moved", "bigint"),
    ("rows_skipped_as_late", "bigint"),
    ("files_written", "bigint"),
    ("bytes_written", "bigint"),
)


def change_rows(
    context: Context, entry: MetastoreTable, statement: st.ChangeStatement, source: SourceText
) -> Result:
    """Run the statement on the Hudi table and give one row that says what it did.

    Raises SqlSyntaxError, QueryError, WriteRefusedError, UnsupportedStatementError, UnsupportedTableError,
    WriteConflictError; the table is then as before. SyncFailedError says that only the metastore lags.
    """
    if is_read_optimized(entry):
        raise UnsupportedStatementError(
            f"{statement.verb} is not possible on {entry.full_name}, which shows base files only",
            hint=f"name the table itself: {entry.database}.{entry.name.removesuffix('_ro')}",
        )
    table = open_hudi_entry(context, entry)
    check_writable(table)
    changes = _changes_of(context, table, entry.full_name, statement, source)
    result = apply_changes(
        context.spark, table, changes, _operation_type(statement), write_options(context, table)
    )
    if result.instant_time is not None and syncs_after_commit(context):
        _sync(context, entry, table)
    return LocalResult(context.spark, OUTPUT, [_result_row(result)])


def _operation_type(statement: st.ChangeStatement) -> str:
    if isinstance(statement, st.InsertStatement):
        return "INSERT"
    return "DELETE" if isinstance(statement, st.DeleteStatement) else "UPSERT"


def _result_row(result: WriteResult) -> tuple[object, ...]:
    return (
        result.instant_time,
        result.inserted,
        result.updated,
        result.deleted,
        result.moved,
        result.late,
        result.files,
        result.bytes,
    )


def _sync(context: Context, entry: MetastoreTable, table: HudiTable) -> None:
    name = entry.name.removesuffix("_rt") if table.is_merge_on_read else entry.name
    fresh = open_table(context.storage, table.base_path)
    sync_table(context.metastore, fresh, entry.database, name)


def _changes_of(
    context: Context, table: HudiTable, place: str, statement: st.ChangeStatement, source: SourceText
) -> DataFrame:
    where = {"line": source.line, "column": source.column}
    schema = table.schema
    moving = _moving_columns(table)
    if isinstance(statement, st.DeleteStatement):
        made = delete_query(cl.read_delete(statement.text, **where), schema)
    elif isinstance(statement, st.UpdateStatement):
        made = update_query(cl.read_update(statement.text, **where), schema, moving, place)
    elif isinstance(statement, st.MergeStatement):
        merge = cl.read_merge(statement.text, **where)
        columns = _columns_of(context, source_query(merge), source)
        made = merge_query(merge, schema, columns, moving, table.properties.precombine_field, place)
    elif isinstance(statement, st.InsertStatement):
        return _inserted_rows(context, table, place, statement, source)
    else:
        raise UnsupportedStatementError(f"{statement.verb} is not supported on the Hudi table {place}")
    frame = _run(context, made.text, source)
    if ACTION in frame.columns:
        frame = frame.filter(f"{ACTION} IS NOT NULL").drop(ACTION)
    return _with_types(context, _with_moves(frame, made, table), schema, place)


def _moving_columns(table: HudiTable) -> tuple[str, ...]:
    keys = [name.split(".")[0] for name in table.properties.record_key_fields]
    return tuple(dict.fromkeys([*keys, *(column.name for column in table.partition_columns)]))


def _run(context: Context, text: ComposedText, source: SourceText) -> DataFrame:
    return query.run_query(context, text.text, text.source(source))


def _columns_of(context: Context, text: ComposedText, source: SourceText) -> list[str]:
    """The columns of a query, which is analyzed and not run."""
    binder = TableBinder(context)
    bound = binder.bind(text.text)
    with (
        query.placeholders(context, binder, bound),
        query.bound_errors(bound, text.source(source)),
    ):
        return context.spark.sql(bound.text).columns


def _with_moves(frame: DataFrame, made: ChangeQuery, table: HudiTable) -> DataFrame:
    """Rows whose key or partition changes become two: the stored one goes, the new one is inserted."""
    from pyspark.sql import functions as sf

    if not made.moves_by:
        return frame
    types = {field.name: spark_type_name(field.type) for field in table.schema}
    moves = sf.lit(False)
    for name in made.moves_by:
        new = sf.col(_quoted(name)).cast(types[name])
        moves = moves | ~new.eqNullSafe(sf.col(_quoted(OLD_VALUE + name)))
    moves = moves & (sf.col(OPERATION) == int(Operation.UPDATE))
    both = sf.array(*[sf.lit(int(each)).cast("tinyint") for each in (Operation.MOVE_OUT, Operation.MOVE_IN)])
    operations = sf.when(moves, both).otherwise(sf.array(sf.col(OPERATION)))
    rest = [_quoted(name) for name in frame.columns if name != OPERATION and not name.startswith(OLD_VALUE)]
    exploded = frame.select(sf.explode(operations).alias(OPERATION), *rest)
    is_new = sf.col(OPERATION) == int(Operation.MOVE_IN)
    for name in (PARTITION, FILE_GROUP, RECORD_KEY):
        exploded = exploded.withColumn(name, sf.when(~is_new, sf.col(name)))
    return exploded


def _inserted_rows(
    context: Context, table: HudiTable, place: str, statement: st.InsertStatement, source: SourceText
) -> DataFrame:
    from pyspark.sql import functions as sf

    clauses = cl.read_insert(statement.text, line=source.line, column=source.column)
    if clauses.overwrite:
        raise UnsupportedStatementError(
            f"INSERT OVERWRITE is not supported on the Hudi table {place} yet",
            hint="DELETE FROM and INSERT INTO do the same in two commits",
        )
    if insert_operation(context) == "upsert":
        raise UnsupportedStatementError(
            f"INSERT INTO {place} as an upsert is not supported yet",
            hint="MERGE INTO … WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        )
    frame = _run(context, insert_query(clauses), source)
    static = {name.lower(): value for name, value in clauses.partition if value is not None}
    given = _given_columns(table, clauses, static, frame.columns, place)
    columns = {name.lower(): sf.col(_quoted(f"c{number}")) for number, name in enumerate(given)}
    renamed = frame.toDF(*(f"c{number}" for number in range(len(given))))
    values = [
        sf.expr(static[field.name.lower()].text)
        if field.name.lower() in static
        else columns.get(field.name.lower(), sf.lit(None))
        for field in table.schema
    ]
    rows = renamed.select(
        sf.lit(int(Operation.INSERT)).cast("tinyint").alias(OPERATION),
        *(sf.lit(None).cast("string").alias(name) for name in (PARTITION, FILE_GROUP, RECORD_KEY)),
        *(value.alias(field.name) for value, field in zip(values, table.schema, strict=True)),
    )
    return _with_types(context, rows, table.schema, place)


def _given_columns(
    table: HudiTable,
    clauses: cl.InsertClauses,
    static: Mapping[str, cl.Piece],
    query_columns: Sequence[str],
    place: str,
) -> list[str]:
    """Which column of the table each column of the query is for."""
    names = table.schema.names
    if clauses.by_name:
        given = list(query_columns)
    elif clauses.columns is not None:
        given = list(clauses.columns)
    else:
        given = [name for name in names if name.lower() not in static]
    known = {name.lower() for name in names}
    for name in (*given, *static):
        if name.lower() not in known:
            raise WriteRefusedError(
                f"{place} has no column '{name}'", hint=f"the columns are {', '.join(names)}"
            )
    repeated = {name for name in given if [each.lower() for each in given].count(name.lower()) > 1}
    if repeated:
        raise WriteRefusedError(f"INSERT INTO {place} names the column '{min(repeated)}' twice")
    if len(given) != len(query_columns):
        raise WriteRefusedError(
            f"INSERT INTO {place} takes {len(given)} columns ({', '.join(given)}), "
            f"but the query gives {len(query_columns)}",
        )
    return given


def _with_types(context: Context, frame: DataFrame, schema: pa.Schema, place: str) -> DataFrame:
    """The changes with the table's types, cast as Spark's ANSI store assignment does."""
    from pyspark.sql import functions as sf

    wanted = spark_struct(change_schema(schema))
    columns: list[Column] = []
    for field in wanted:
        found = frame.schema[field.name].dataType
        if field.name not in CHANGE_COLUMNS and not _can_assign(context, found, field.dataType):
            raise WriteRefusedError(
                f"column '{field.name}' of {place} is {field.dataType.simpleString()}: "
                f"a value of type {found.simpleString()} cannot be stored in it",
                hint=f"CAST the value AS {field.dataType.simpleString()} if that is what is meant",
            )
        columns.append(sf.col(_quoted(field.name)).cast(field.dataType).alias(field.name))
    return frame.select(*columns)


def _can_assign(context: Context, found: Any, wanted: Any) -> bool:
    """Spark's rule for values that INSERT and UPDATE store (`spark.sql.storeAssignmentPolicy=ANSI`)."""
    if found == wanted or found.simpleString() == "void":
        return True
    jvm: Any = context.spark._jvm
    parse = jvm.org.apache.spark.sql.types.DataType.fromJson
    cast = jvm.org.apache.spark.sql.catalyst.expressions.Cast
    return bool(cast.canANSIStoreAssign(parse(found.json()), parse(wanted.json())))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
