"""The rows by which an incremental table differs from its query's result, for some values of its columns.

Both sides are compared by the key, so that a refresh writes only changed rows: a downstream pull from this
table reads no other row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow.compute as pc

from hudisql.config.hudi_config import DRIVER_MAX_BYTES, REFRESH_DRIVER_MAX_BYTES
from hudisql.format.schema.internal_columns import internal_column
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.format.schema.spark_schema import quote_name
from hudisql.sql.dml.statement_scope import StatementScope
from hudisql.sql.incremental_tables.maintained_columns import MaintainedValues
from hudisql.sql.query import query_plan
from hudisql.sql.query.query_plan import PreparedQuery
from hudisql.sql.query.relations import TableBinder
from hudisql.sql.schema.store_assignment import with_types
from hudisql.sql.text.spark_errors import SourceText
from hudisql.sql.text.statements import Statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

DELETED: Final = internal_column("deleted")
"""The column that marks rows to delete."""
NEW: Final = internal_column("new")
"""The column that marks rows whose key is not in the compared stored rows."""
_LITTLE_BYTES: Final = 32 << 20
_BYTES_OF_A_VALUE: Final = 1 << 10


def refresh_driver_bytes(scope: StatementScope) -> int:
    """Up to how many bytes of file slices a refresh reads and writes on the driver.

    That is 0 where statements have nothing of files on the driver.
    """
    return scope.settings.get(REFRESH_DRIVER_MAX_BYTES) if scope.settings.get(DRIVER_MAX_BYTES) else 0


def rows_of_table(scope: StatementScope, new: DataFrame) -> DataFrame:
    """The query's rows with the columns and types of the table.

    A column that the query lacks, as after a killed change of the definition, becomes NULL. Raises
    WriteRefusedError.
    """
    from pyspark.sql import functions as sf

    schema = scope.table.schema
    if new.columns != schema.names:
        given = {name.lower(): name for name in new.columns if not is_meta_column(name)}
        columns = {name: given.get(name.lower()) for name in schema.names}
        new = new.select(
            *(
                (sf.lit(None) if column is None else sf.col(quote_name(column))).alias(name)
                for name, column in columns.items()
            )
        )
    lengths = scope.table.properties.column_lengths
    return with_types(scope.context, new, schema, scope.table_label, lengths=lengths)


def changed_rows(scope: StatementScope, new: DataFrame, old: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows to write (`DELETED` false) and to delete so that `old` becomes `new`.

    `new` is a result of `rows_of_table`. A key of several columns may have nulls.
    """
    from pyspark.sql import functions as sf
    from pyspark.sql.types import MapType

    names = scope.table.schema.names
    types = {field.name: field.dataType for field in new.schema}
    left = new.toDF(*(f"n{at}" for at in range(len(names)))).withColumn("n", sf.lit(True))
    right = old.select(*map(quote_name, names)).toDF(*(f"o{at}" for at in range(len(names))))
    right = right.withColumn("o", sf.lit(True))
    places = [
        next(at for at, name in enumerate(names) if name.lower() == key_column.lower()) for key_column in key
    ]
    condition = sf.lit(True)
    for at in places:
        condition = condition & sf.col(f"n{at}").eqNullSafe(sf.col(f"o{at}"))
    joined = left.join(right, condition, "full_outer")
    differs = sf.col("n").isNull() | sf.col("o").isNull()
    for at, name in enumerate(names):
        # Maps cannot be compared: their rows count as changed.
        is_equal = (
            sf.lit(False)
            if isinstance(types[name], MapType)
            else sf.col(f"n{at}").eqNullSafe(sf.col(f"o{at}"))
        )
        differs = differs | ~is_equal
    return joined.where(differs).select(
        *(
            sf.when(sf.col("n"), sf.col(f"n{at}")).otherwise(sf.col(f"o{at}")).alias(name)
            for at, name in enumerate(names)
        ),
        sf.col("n").isNull().alias(DELETED),
        sf.col("o").isNull().alias(NEW),
    )


def rows_of_values(
    scope: StatementScope, text: str, binder: TableBinder, values: MaintainedValues | None
) -> DataFrame:
    """The rows of a query that have these values in the columns of `values`; None: all rows.

    Raises QueryError.
    """
    context = scope.context
    if values is None:
        source = SourceText(text)
        prepared = _prepare(scope, source, binder, scope.settings.get(DRIVER_MAX_BYTES))
        return query_plan.run_prepared(context, prepared, source)
    view = f"__hudisql_values_{uuid4().hex[:8]}"
    values.frame.createOrReplaceTempView(view)
    scope.resources.callback(context.spark.catalog.dropTempView, view)
    equal = " AND ".join(
        _is_one_of(quote_name(name), at, field.dataType, values.few)
        for at, (name, field) in enumerate(zip(values.columns, values.frame.schema, strict=True))
    )
    where = _where([bound.pushed for bound in values.bounds])
    hint = "" if values.few is None else "/*+ BROADCAST(d) */ "
    # Spark applies EXISTS to a source's rows, but LEFT SEMI JOIN only after joins.
    text = (
        f"SELECT q.* FROM (SELECT * FROM (\n{text}\n){where}) AS q "
        f"WHERE EXISTS (SELECT {hint}1 FROM {view} AS d WHERE {equal})"
    )
    source = SourceText(text)
    prepared = _prepare(scope, source, binder, refresh_driver_bytes(scope))
    if _reads_little(prepared, values.few):
        # The bounds only select files: Spark need not compile code for these numbers.
        before, _, behind = prepared.bound.text.rpartition(where)
        text = before + _where([bound.compared for bound in values.bounds]) + behind
        prepared = replace(prepared, bound=replace(prepared.bound, text=text))
    return query_plan.run_prepared(context, prepared, source)


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else " WHERE true"


def _reads_little(prepared: PreparedQuery, few: pa.Table | None) -> bool:
    """True if skipping row groups does not pay: the files are small, or have many of the values."""
    read = sum(sum(scan.plan.scanned_bytes()) for scan in prepared.scans if scan.plan is not None)
    return read <= max(_LITTLE_BYTES, _BYTES_OF_A_VALUE * (0 if few is None else few.num_rows))


def _is_one_of(column: str, at: int, kind: DataType, few: pa.Table | None) -> str:
    """Empty text also matches NULL: the table returns an empty partition value as NULL."""
    from pyspark.sql.types import StringType

    is_text = isinstance(kind, StringType)
    if few is not None and not few.column(at).null_count:
        has_empty = is_text and pc.any(pc.equal(few.column(at), "")).as_py()
        if not has_empty:
            return f"q.{column} = d.v{at}"
    return f"coalesce(q.{column}, '') = coalesce(d.v{at}, '')" if is_text else f"q.{column} <=> d.v{at}"


def _prepare(
    scope: StatementScope, source: SourceText, binder: TableBinder, driver_bytes: int
) -> PreparedQuery:
    return query_plan.prepare_query(
        scope.context, Statement(source.text), source, binder=binder, driver_bytes=driver_bytes
    )
