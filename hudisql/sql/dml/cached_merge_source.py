"""The source of a MERGE, computed once and cached while the statement runs.

A MERGE that also inserts is an outer join that keeps the source's rows, for which Spark has to shuffle the
whole target. A small source is broadcast first, so that only the
target rows that match it reach the join.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from hudisql.format.schema.spark_schema import quote_name
from hudisql.spark.cached_rows import cache_rows
from hudisql.spark.jvm import optimized_plan
from hudisql.sql.text.clauses import MergeClauses

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

VIEW_PREFIX: Final = "__hudisql_source_"
# The limit of the cached source; its columns of the join condition are sent to all tasks.
_SMALL_BYTES: Final = 64 << 20


@dataclass(frozen=True)
class CachedMergeSource:
    """The source's rows, also as a temporary view; `is_small` if they can be sent to all tasks.

    `few` are the same rows on the driver, below a limit.
    """

    rows: DataFrame
    few: pa.Table | None
    view_name: str
    is_small: bool

    def has_null(self, columns: Sequence[str]) -> bool:
        """True if a row is NULL in one of these columns. Raises Spark's own exceptions."""
        from pyspark.sql import functions as sf

        if self.few is not None:
            return any(self.few.column(name).null_count for name in columns)
        nulls = [sf.col(quote_name(name)).isNull() for name in columns]
        return not self.rows.filter(reduce(or_, nulls)).isEmpty()


def cache_merge_source(frame: DataFrame, stack: ExitStack) -> CachedMergeSource:
    """Compute the source and keep it until `stack` is closed. Raises Spark's own exceptions."""
    spark = frame.sparkSession
    view_name = f"{VIEW_PREFIX}{uuid4().hex[:8]}"
    cached = cache_rows(frame)
    stack.callback(cached.release)
    rows = cached.frame
    rows.createOrReplaceTempView(view_name)
    stack.callback(spark.catalog.dropTempView, view_name)
    if cached.few is None:
        rows.count()
    plan = optimized_plan(rows)
    return CachedMergeSource(rows, cached.few, view_name, int(plan.stats().sizeInBytes()) <= _SMALL_BYTES)


def leaves_other_targets(merge: MergeClauses) -> bool:
    """True if target rows without a match stay unchanged."""
    return all(action.matched != "not_matched_by_source" for action in merge.actions)


def target_alias(merge: MergeClauses, statement: str) -> str | None:
    """The name of the target's columns outside of a subquery, or None if there is none.

    Without an alias that is the table's plain name, unless the statement says `database.table.column`.
    """
    target = merge.target
    if target.alias is not None:
        return target.alias
    name = target.name.text
    if "`" in name or (("." in name) and statement.lower().count(name.lower()) > 1):
        return None
    return name.rsplit(".", 1)[-1]
