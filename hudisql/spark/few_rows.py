"""Few rows, brought to the driver once: what is done with them afterwards needs no shuffle and no cache.

How few they are is known from Catalyst's plan before anything runs: its leaves are rows that the statement
itself holds (VALUES, range, rows collected before). Files and other sources are never taken for few.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudisql.spark.java_objects import class_name, items_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

MOST_ROWS: Final = 50_000
MOST_BYTES: Final = 4 << 20
_LEAVES: Final = frozenset({"LocalRelation", "OneRowRelation", "Range"})
# Nodes that give no more rows than come in.
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


def collect_few_rows(frame: DataFrame) -> pa.Table | None:
    """The rows of `frame`, computed now, if its plan says that they are few; else None, and nothing ran.

    More rows than that after joins and generators also give None. Nested types are never taken. Raises
    Spark's own exceptions.
    """
    if not all(_is_atomic(field.dataType) for field in frame.schema):
        return None
    plan: Any = frame._jdf.queryExecution().optimizedPlan()
    names = set(_node_names(plan))
    if not names <= _LEAVES | _REDUCING | _GROWING or int(plan.stats().sizeInBytes()) > MOST_BYTES:
        return None
    grows = bool(names & _GROWING)
    rows: pa.Table = (frame.limit(MOST_ROWS + 1) if grows else frame).toArrow()
    return None if grows and rows.num_rows > MOST_ROWS else rows


def local_frame(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """Rows of the driver as a DataFrame whose plan holds them: joins send it to all tasks without a job."""
    return spark.createDataFrame(rows, schema=schema)


def _node_names(plan: Any) -> Iterator[str]:
    yield class_name(plan)
    for child in items_of(plan.children()):
        yield from _node_names(child)


def _is_atomic(kind: DataType) -> bool:
    from pyspark.sql import types

    plain = (
        *(types.BooleanType, types.ByteType, types.ShortType, types.IntegerType, types.LongType),
        *(types.FloatType, types.DoubleType, types.DecimalType, types.BinaryType),
        *(types.DateType, types.TimestampType, types.TimestampNTZType),
    )
    return isinstance(kind, plain) or kind == types.StringType()
