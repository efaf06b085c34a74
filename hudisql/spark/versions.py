"""The differences between the supported versions of PySpark, all in this module.

hudisql is written for PySpark 4.1 and newer. 4.0 lacks `repartitionById`, Arrow UDFs and filters of Python
data sources; 3.5 also lacks Python data sources, `toArrow`, and the package `classic` of Spark's own classes.
The replacements here do the same, some more slowly.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from hudisql.errors import SettingsError, UnsupportedStatementError
from hudisql.spark.jvm import (
    class_name,
    collected_batches,
    items_of,
    java_class,
    java_column,
    java_dataset,
    java_session,
    object_array,
    scala_object,
    session_state,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

OLDEST: Final = (3, 5)
NEWEST_MAJOR: Final = 4
# The prefix of stored settings among a view's properties.
VIEW_SETTING: Final = "view.sqlConfig."
_SEPARATOR: Final = "\x01"
_SPARK_4: Final = (4, 0)
# A pandas UDF turns integers beside NULL into floats and cannot distinguish NULL from NaN, so these types are
# converted.
_AS_DECIMAL: Final = "decimal(20,0)"


@cache
def pyspark_version() -> tuple[int, int]:
    """The first two numbers of PySpark's version."""
    import pyspark

    major, minor, *_ = pyspark.__version__.split(".")
    return int(major), int(minor)


def check_pyspark(version: tuple[int, int] | None = None) -> None:
    """Raise SettingsError for an unsupported PySpark version."""
    found = pyspark_version() if version is None else version
    if found < OLDEST or found[0] > NEWEST_MAJOR:
        raise SettingsError(
            f"PySpark {found[0]}.{found[1]} is installed: hudisql runs on 3.5 and 4",
            hint="pip install 'pyspark>=4.1,<5', or 'pyspark==3.5.*' for a cluster of Spark 3.5",
        )


def called_since(version: tuple[int, int], owner: Any, method: str, default: Any) -> Any:
    """The result of a JVM object's method; `default` before the version of Spark that has the method."""
    return getattr(owner, method)() if pyspark_version() >= version else default


@dataclass(frozen=True)
class AlteredColumn:
    """ALTER COLUMN of one column, as JVM objects: a `FieldName`, and an `Option` for each clause."""

    field: Any
    data_type: Any
    nullability: Any
    comment: Any
    position: Any
    default: Any
    drops_comment: bool = False
    drops_default: bool = False


def altered_columns(plan: Any) -> Sequence[AlteredColumn] | None:
    """The columns that a parsed ALTER TABLE … ALTER COLUMN changes; None for another plan."""
    kind = class_name(plan)
    if kind == "AlterColumn":
        # Spark 3.5 takes one column a statement.
        clauses = (plan.dataType(), plan.nullable(), plan.comment(), plan.position())
        return [AlteredColumn(plan.column(), *clauses, plan.setDefaultExpression())]
    if kind != "AlterColumns":
        return None
    return [
        AlteredColumn(
            *(item.column(), item.newDataType(), item.newNullability(), item.newComment()),
            *(item.newPosition(), item.newDefaultExpression()),
            drops_comment=_called_if_there(item, "dropComment"),
            drops_default=_called_if_there(item, "dropDefault"),
        )
        for item in items_of(plan.specs())
    ]


def location_of_table_like(plan: Any) -> Any:
    """The LOCATION of a parsed CREATE TABLE … LIKE, an `Option` of the JVM; None for another plan."""
    kind = class_name(plan)
    if kind == "CreateTableLikeCommand":
        # Spark 3.5 and 4.0.
        return plan.fileFormat().locationUri()
    return plan.location() if kind == "CreateTableLike" else None


@dataclass(frozen=True)
class TableLikeStorage:
    """LOCATION of a CREATE TABLE … LIKE, and whether STORED AS or ROW FORMAT is given."""

    location: str | None
    has_format: bool


def storage_of_table_like(plan: Any) -> TableLikeStorage:
    """The clauses of a parsed CREATE TABLE … LIKE that say how its files are stored."""
    location = location_of_table_like(plan)
    text = str(location.get()) if location.isDefined() else None
    if class_name(plan) == "CreateTableLike":
        return TableLikeStorage(text, bool(plan.serdeInfo().isDefined()))
    # Spark 3.5 and 4.0 keep the location as a URI.
    serde = plan.fileFormat()
    has_format = serde.inputFormat().isDefined() or serde.serde().isDefined()
    return TableLikeStorage(None if text is None else unquote(text), bool(has_format))


def _called_if_there(owner: Any, method: str) -> bool:
    """The result of a JVM object's method, or False if this version of Spark lacks the method."""
    from py4j.protocol import Py4JError

    try:
        return bool(getattr(owner, method)())
    except Py4JError as error:
        if "does not exist" in str(error):
            return False
        raise


def columns_of_create_table(plan: Any) -> Sequence[Any] | None:
    """The `ColumnDefinition`s (JVM objects) of a parsed CREATE TABLE; None before Spark 4."""
    return list(items_of(plan.columns())) if pyspark_version() >= _SPARK_4 else None


def sql_class(name: str) -> str:
    """The full name of one of Spark's own classes (`Dataset`, `SparkSession`), which moved in 4.0."""
    package = "org.apache.spark.sql"
    return f"{package}.{name}" if pyspark_version() < _SPARK_4 else f"{package}.classic.{name}"


def sql_of_column(spark: SparkSession, column: Column) -> str:
    """The text of a Column without names of columns (a literal, or an array, map or struct of literals)."""
    own = java_column(column)
    # Spark 4 converts a column by its session.
    expression = own.expr() if pyspark_version() < _SPARK_4 else java_session(spark).expression(own)
    return str(expression.sql())


def dataframe_class() -> type[DataFrame]:
    """The class of the DataFrames of classic sessions."""
    if pyspark_version() < _SPARK_4:
        from pyspark.sql import DataFrame

        return DataFrame
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    return ClassicDataFrame


def check_statement_since(version: tuple[int, int], what: str, hint: str) -> None:
    """Raise UnsupportedStatementError if PySpark is older than `version`, which the statement needs."""
    if pyspark_version() < version:
        raise UnsupportedStatementError(f"{what} needs PySpark {version[0]}.{version[1]}", hint=hint)


def limit_of_widened_files(widened: pa.DataType) -> str:
    """A limit to warn of, for files with narrower columns than the table; empty if Spark can scan them."""
    import pyarrow as pa

    if pyspark_version() >= _SPARK_4 or widened not in (pa.int64(), pa.float64()):
        return ""
    return "; Spark 3.5 cannot scan such files, Spark 4 can"


def has_scalar_subqueries() -> bool:
    """True if `DataFrame.scalar` is there."""
    return pyspark_version() >= _SPARK_4


def message_of_captured(error: BaseException) -> str | None:
    """The message, without stack trace, of an exception that PySpark caught from the JVM; None for others."""
    described = _captured(error, "desc")
    return str(described) if described else None


def details_of_captured(error: BaseException) -> str:
    """The messages and stack traces of an exception that PySpark caught from the JVM, and of its causes."""
    texts = [_captured(error, "desc"), _captured(error, "stackTrace")]
    cause = _captured(error, "cause")
    if cause is not None:
        # The stack traces of Spark 3.5's analysis errors leave it out.
        texts.append(details_of_captured(cause))
    return "\n".join(str(text) for text in texts if text)


def _captured(error: BaseException, name: str) -> Any:
    return getattr(error, name if pyspark_version() < _SPARK_4 else f"_{name}", None)


def set_active_session(spark: SparkSession) -> None:
    """Make the session the active one of this thread, from which Spark's parser takes its settings."""
    java_class(spark, sql_class("SparkSession")).setActiveSession(java_session(spark))


def frame_of_plan(spark: SparkSession, plan: Any, *, session: Any = None) -> DataFrame:
    """The rows of a logical plan (a JVM object), computed in `session` (a JVM object) if it is given."""
    datasets = scala_object(spark, sql_class("Dataset"))
    return frame_of_java(spark, datasets.ofRows(java_session(spark) if session is None else session, plan))


def frame_of_java(spark: SparkSession, dataset: Any) -> DataFrame:
    """The DataFrame of a `Dataset` of the JVM."""
    from pyspark.sql import DataFrame

    # In PySpark 4 `DataFrame` is the class of all kinds of DataFrames, and this creates a JVM-backed one.
    make: Any = DataFrame
    frame: DataFrame = make(dataset, spark)
    return frame


def expression_of(spark: SparkSession, column: Column) -> Any:
    """Catalyst's expression (a JVM object) of a column."""
    if pyspark_version() < _SPARK_4:
        return java_column(column).expr()
    return java_class(spark, sql_class("ExpressionUtils")).expression(java_column(column))


def column_of(spark: SparkSession, expression: Any) -> Column:
    """The column of one of Catalyst's expressions (a JVM object)."""
    from pyspark.sql import Column

    make: Any = Column
    if pyspark_version() < _SPARK_4:
        java_column = java_class(spark, "org.apache.spark.sql.Column")(expression)
    else:
        java_column = java_class(spark, sql_class("ExpressionUtils")).column(expression)
    column: Column = make(java_column)
    return column


def settings_stored_with_views(spark: SparkSession) -> list[str]:
    """The names of the session's settings that Spark would store with a view now."""
    helper = scala_object(spark, "org.apache.spark.sql.execution.command.ViewHelper")
    settings = session_state(spark).conf()
    if pyspark_version() >= (4, 1):
        stored = helper.sqlConfigsToProps(settings, VIEW_SETTING)
    else:
        stored = _called_in_private(spark, helper, "sqlConfigsToProps", settings)
    names = str(stored.keys().mkString(_SEPARATOR))
    return [name.removeprefix(VIEW_SETTING) for name in names.split(_SEPARATOR)] if names else []


def _called_in_private(spark: SparkSession, owner: Any, name: str, argument: Any) -> Any:
    """The result of a private method of a JVM object; the method name must be unique."""
    (method,) = (
        getDeclaredMethod
        for getDeclaredMethod in owner.getClass().getDeclaredMethods()
        if getDeclaredMethod.getName() == name
    )
    method.setAccessible(True)
    return method.invoke(owner, object_array(spark, [argument]))


def scala_sequence(spark: SparkSession, items: Sequence[Any]) -> Any:
    """A Scala `Seq` of JVM objects."""
    listed = java_class(spark, "java.util.ArrayList")()
    for item in items:
        listed.add(item)
    made = java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq(listed)
    return made.toIndexedSeq()


def sequence_of_array(spark: SparkSession, array: Any) -> Any:
    """A Scala `Seq` of the items of a Java array."""
    if pyspark_version() < _SPARK_4:
        # Scala 2.12.
        return java_class(spark, "scala.Predef").genericWrapArray(array)
    return java_class(spark, "scala.collection.immutable.ArraySeq").unsafeWrapArray(array)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema as Arrow's, a TIMESTAMP in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Versions without this parameter return UTC.
    named: Any = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    converted: pa.Schema = to_arrow_schema(schema, **named)
    return converted


def to_arrow(frame: DataFrame) -> pa.Table:
    """The rows of a DataFrame, on the driver. Raises Spark's own exceptions."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    import pyarrow as pa

    schema = arrow_schema(frame.schema)
    batches = collected_batches(frame)
    return pa.Table.from_batches(batches, None if batches else schema).cast(schema)


def local_iterator(served: Any) -> Any:
    """The messages that `toLocalIteratorAndServe` of Spark serves, one partition after the other."""
    from pyspark import rdd, util
    from pyspark.serializers import NoOpSerializer

    older: Any = rdd
    module: Any = older if pyspark_version() < _SPARK_4 else util
    return module._local_iterator_from_socket(served, NoOpSerializer())


def metadata_column(frame: DataFrame, name: str) -> Column:
    """A metadata column (`_metadata`) of the files that a DataFrame scans, whatever its other columns are."""
    from pyspark.sql import Column

    if pyspark_version() >= _SPARK_4:
        return frame.metadataColumn(name)
    # Spark 3.5 has the method that PySpark 3.5 lacks.
    make: Any = Column
    column: Column = make(java_dataset(frame).metadataColumn(name))
    return column


def rebalance(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows in partitions of a fitting size, those of equal columns (names in quotes) together."""
    if pyspark_version() >= _SPARK_4 or not columns:
        return frame.hint("rebalance", *columns)
    from pyspark.sql import functions as sf

    # Spark 3.5 takes texts for values, not for names of columns.
    spark = frame.sparkSession
    parameters = scala_sequence(spark, [expression_of(spark, sf.col(name)) for name in columns])
    return frame_of_java(spark, java_dataset(frame).hint("rebalance", parameters))


def repartition_by_id(frame: DataFrame, partitions: int, number: Column) -> DataFrame:
    """The rows in `partitions` partitions, each row in that of its `number` (an int column, never NULL)."""
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(partitions, number)
    from pyspark.sql import functions as sf

    # Spark places a row by a column's hash, so each partition gets a number with the right hash.
    listed = ",".join(str(key) for key in _numbers_by_partition(partitions))
    keys = sf.expr(f"CAST(split('{listed}', ',') AS array<int>)")
    return frame.repartition(partitions, keys[sf.pmod(number, sf.lit(partitions))])


@cache
def _numbers_by_partition(partitions: int) -> tuple[int, ...]:
    """For each partition a number that Spark's hash partitioning places there."""
    import numpy as np

    found = np.full(partitions, -1)
    begin, size = 0, 16 * partitions
    while (found < 0).any():
        numbers = np.arange(begin, begin + size)
        found[_spark_hash(numbers) % partitions] = numbers
        begin += size
    return tuple(found.tolist())


def _spark_hash(numbers: Any) -> Any:
    """`hash(number)` of Spark SQL for ints: Murmur3 with the seed 42, as signed 32 bits."""
    import numpy as np

    def rotated(values: Any, bits: int) -> Any:
        return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))

    mixed = rotated(numbers.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    value = rotated(mixed ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    value ^= np.uint32(4)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        value = (value ^ (value >> np.uint32(shift))) * np.uint32(factor)
    return (value ^ (value >> np.uint32(16))).view(np.int32).astype(np.int64)


def arrow_column(
    function: Callable[[pa.RecordBatch], pa.Array], return_type: str, fields: Sequence[pa.Field]
) -> Column:
    """The column that `function` makes of batches of the columns `fields`, which are found by their names.

    `return_type` is `int` or `string`. Raises UnsupportedStatementError for nested columns before 4.1.
    """
    from pyspark.sql import functions as sf

    from hudisql.format.schema.spark_schema import quote_name

    names = [field.name for field in fields]
    if not _has_arrow_udf():
        return _pandas_column(function, return_type, fields)
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    def of_arrays(*columns: pa.Array) -> pa.Array:
        return function(pa.RecordBatch.from_arrays(list(columns), names=names))

    # PySpark derives the kind of function from these annotations.
    of_arrays.__annotations__.update({"columns": pa.Array, "return": pa.Array})
    make_udf: Any = arrow_udf  # PySpark's type hints do not allow variable arguments
    column: Column = make_udf(of_arrays, return_type)(*(sf.col(quote_name(name)) for name in names))
    return column


def _has_arrow_udf() -> bool:
    return pyspark_version() >= (4, 1)


def _pandas_column(
    function: Callable[[pa.RecordBatch], pa.Array], return_type: str, fields: Sequence[pa.Field]
) -> Column:
    """`arrow_column` by a pandas UDF, with values in forms that pandas does not change."""
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow as pa
    from pyspark.sql.pandas.functions import pandas_udf

    nested = [field.name for field in fields if pa.types.is_nested(field.type)]
    if nested:
        raise UnsupportedStatementError(
            f"key and partition fields in the nested column {nested[0]} need PySpark 4.1",
            hint="use PySpark 4.1 or newer, or a record key of plain columns",
        )
    schema = pa.schema(list(fields))

    def of_series(*columns: Any) -> Any:
        arrays = [_from_pandas(column, field.type) for column, field in zip(columns, schema, strict=True)]
        made = function(pa.RecordBatch.from_arrays(arrays, names=schema.names))
        return made.to_pandas() if made.null_count == 0 else pd.Series(made.to_pylist(), dtype=object)

    of_series.__annotations__.update({"columns": pd.Series, "return": pd.Series})
    make_udf: Any = pandas_udf
    udf = make_udf(of_series, return_type)
    column: Column = udf(*(_for_pandas(field) for field in fields))
    return column


def _for_pandas(field: pa.Field) -> Column:
    """The column as text or decimal if pandas would change its values."""
    import pyarrow as pa
    from pyspark.sql import functions as sf

    from hudisql.format.schema.spark_schema import quote_name

    name, kind = quote_name(field.name), field.type
    if pa.types.is_integer(kind):
        return sf.expr(f"CAST({name} AS {_AS_DECIMAL})")
    if pa.types.is_floating(kind):
        return sf.expr(f"CAST({name} AS string)")
    if pa.types.is_date(kind):
        return sf.expr(f"CAST(unix_date({name}) AS {_AS_DECIMAL})")
    if pa.types.is_timestamp(kind):
        zero = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
        micros = (
            f"unix_micros({name})" if kind.tz is not None else f"timestampdiff(MICROSECOND, {zero}, {name})"
        )
        return sf.expr(f"CAST({micros} AS {_AS_DECIMAL})")
    return sf.col(name)


def _from_pandas(values: Any, kind: pa.DataType) -> pa.Array:
    """The original values of a column that `_for_pandas` converted."""
    import pyarrow as pa

    if pa.types.is_floating(kind):
        return pa.array(values, pa.string(), from_pandas=True).cast(kind)
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        whole = pa.array(values, pa.decimal128(20, 0), from_pandas=True).cast(pa.int64())
        return whole.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else whole.cast(kind)
    return pa.array(values, kind, from_pandas=True)
