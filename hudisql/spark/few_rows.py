"""Few rows, collected to the driver once, so that later steps need no shuffle and no cache.

Catalyst's plan gives their number before anything runs: its leaves are rows of the statement itself (VALUES,
range, rows collected before). Files and other sources never count as few.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from hudisql.spark.jvm import (
    analyzed_plan,
    class_name,
    items_of,
    java_class,
    java_session,
    optimized_plan,
    scala_object,
    set_schema,
)
from hudisql.spark.versions import frame_of_java, frame_of_plan, to_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_ARROW: Final = "org.apache.spark.sql.execution.arrow.ArrowConverters"
MOST_ROWS: Final = 50_000
MOST_BYTES: Final = 4 << 20
# A job collects more rows faster, as Arrow batches.
_MOST_ROWS_AS_OBJECTS: Final = 1_000
_FOR_FEW_ROWS: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}
_IN_TASKS: Final = ("spark.sql.execution.arrow.localRelationThreshold", "0")
_LEAVES: Final = frozenset({"LocalRelation", "OneRowRelation", "Range"})
# Nodes that never add rows.
_REDUCING: Final = frozenset(
    {
        *(
            "Project",
            "Filter",
            "Sort",
            "Window",
            "Aggregate",
            "Distinct",
            "Union",
            "GlobalLimit",
            "LocalLimit",
        ),
        *("Offset", "Repartition", "RepartitionByExpression", "RebalancePartitions", "SubqueryAlias"),
    }
)
_GROWING: Final = frozenset({"Join", "Generate", "Expand"})


def collect_few_rows(
    frame: DataFrame, *, most_bytes: int = MOST_BYTES, most_rows: int = MOST_ROWS
) -> pa.Table | None:
    """The rows of `frame`, computed now, if by its plan they are few; else None, without running anything.

    `most_bytes` limits Spark's estimate of the plan. More than `most_rows` after joins and generators also
    give None, as do nested types. Raises Spark's own exceptions.
    """
    if not all(_is_atomic(field.dataType) for field in frame.schema):
        return None
    plan = optimized_plan(frame)
    names = set(_node_names(plan))
    size = int(plan.stats().sizeInBytes())
    if not names <= _LEAVES | _REDUCING | _GROWING or size > most_bytes:
        return None
    is_held = names == {"LocalRelation"} and all(_is_plain(field.dataType) for field in frame.schema)
    if is_held and int(plan.data().size()) <= _MOST_ROWS_AS_OBJECTS:
        return _rows_of_local_relation(frame)
    grows = bool(names & _GROWING)
    planned = _planned_for_few_rows(frame)
    rows = to_arrow(planned.limit(most_rows + 1) if grows else planned)
    return None if grows and rows.num_rows > most_rows else rows


def _planned_for_few_rows(frame: DataFrame) -> DataFrame:
    """The same query in a copy of its session that plans it for one task, without generated code.

    For few rows, compiling code and the stages of a shuffle take most of the time.
    """
    spark = frame.sparkSession
    session = java_session(spark).cloneSession()
    configuration = session.sessionState().conf()
    for name, value in _FOR_FEW_ROWS.items():
        configuration.setConfString(name, value)
    return frame_of_plan(spark, analyzed_plan(frame), session=session)


def local_frame(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Rows of the driver as a DataFrame whose plan holds them: joins send it to all tasks without a job.

    As `SparkSession.createDataFrame`, with a tenth of its JVM calls. Timestamps with a time zone are Spark's
    TIMESTAMP, those without its TIMESTAMP_NTZ. Integers get the sizes of `schema`.
    """
    frame = frame_of_java(spark, _java_frame(spark, java_session(spark), rows, schema))
    set_schema(frame, schema)
    return frame


def arrow_frame(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """As `local_frame`, for more rows: a task reads them from one Arrow batch.

    Spark serializes rows in its plan one by one for every join. Spark does not know the size of this
    DataFrame, so joins need a broadcast hint.
    """
    planned = java_session(spark).cloneSession()
    planned.sessionState().conf().setConfString(*_IN_TASKS)
    java_frame = _java_frame(spark, planned, rows, schema)
    return frame_of_plan(spark, java_frame.queryExecution().analyzed())


def _java_frame(spark: SparkSession, session: Any, rows: pa.Table, schema: StructType) -> Any:
    import pyarrow as pa

    rows = _with_sizes_of(schema, with_stored_types(rows))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        # One batch: with several, some of them empty, Spark lost rows.
        stream.write_table(rows.combine_chunks())
    data = java_class(spark, "java.io.ByteArrayInputStream")(sink.getvalue().to_pybytes())
    channel = java_class(spark, "java.nio.channels.Channels").newChannel(data)
    batches = scala_object(spark, _ARROW).getBatchesFromStream(channel)
    frames = java_class(spark, "org.apache.spark.sql.api.python.PythonSQLUtils")
    return frames.toDataFrame(batches, schema.json(), session)


def with_stored_types(rows: pa.Table) -> pa.Table:
    """The rows with the default types of Spark's own Arrow batches."""
    import pyarrow as pa

    return rows.cast(pa.schema([pa.field(field.name, _stored_type(field.type)) for field in rows.schema]))


def _with_sizes_of(schema: StructType, rows: pa.Table) -> pa.Table:
    """The rows with the schema's integer types, since Spark reads a batch's bytes by the schema."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    fields = [
        pa.field(
            field.name, to_arrow_type(wanted.dataType) if pa.types.is_integer(field.type) else field.type
        )
        for field, wanted in zip(rows.schema, schema, strict=True)
    ]
    return rows.cast(pa.schema(fields))


def _stored_type(kind: pa.DataType) -> pa.DataType:
    """The type as Spark's reader of Arrow batches takes it."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _rows_of_local_relation(frame: DataFrame) -> pa.Table:
    """The rows of a plan that holds them, which Spark returns without a job."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    rows = frame.collect()
    fields = [pa.field(field.name, to_arrow_type(field.dataType)) for field in frame.schema]
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(fields)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _node_names(plan: Any) -> Iterator[str]:
    yield class_name(plan)
    for child in items_of(plan.children()):
        yield from _node_names(child)


def _is_plain(kind: DataType) -> bool:
    """True for types whose values are the same in Python as in Arrow, whatever the time zone."""
    from pyspark.sql import types

    plain = (
        *(types.BooleanType, types.ByteType, types.ShortType, types.IntegerType, types.LongType),
        *(types.DoubleType, types.DecimalType, types.BinaryType),
    )
    return isinstance(kind, plain) or kind == types.StringType()


def _is_atomic(kind: DataType) -> bool:
    from pyspark.sql import types

    plain = (
        *(types.BooleanType, types.ByteType, types.ShortType, types.IntegerType, types.LongType),
        *(types.FloatType, types.DoubleType, types.DecimalType, types.BinaryType),
        *(types.DateType, types.TimestampType, types.TimestampNTZType),
    )
    return isinstance(kind, plain) or kind == types.StringType()
