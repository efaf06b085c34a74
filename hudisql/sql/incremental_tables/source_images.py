"""The rows of a query's sources before and after their changes, and values taken from them.

Few rows are read on the driver. Columns that the query passes through unchanged are Arrow columns at once;
Spark computes all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudisql.read.changes.change_capture import GroupChange
from hudisql.read.changes.change_scan import changed_images, few_changed_images
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.spark.few_rows import local_frame, with_stored_types
from hudisql.sql.incremental_tables import catalyst_plans as cat
from hudisql.sql.incremental_tables.affected_values import NotTraceableError
from hudisql.sql.incremental_tables.sources import QuerySources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class SourceImages:
    """Rows before and after changes, by the name of each reference: `few` on the driver, `many` in Spark."""

    few: Mapping[str, pa.Table]
    many: Mapping[str, DataFrame]

    def frames(self, spark: SparkSession) -> dict[str, DataFrame]:
        """All rows; duplicates among the few only once."""
        return {**self.many, **{name: _frame(spark, _distinct(rows)) for name, rows in self.few.items()}}

    def columns_alone(self, spark: SparkSession) -> dict[str, DataFrame]:
        """The columns of the few rows, for plans that `values_of` reads."""
        return {name: _frame(spark, rows.slice(0, 0)) for name, rows in self.few.items()}

    def values_of(self, plans: Sequence[Any], columns: Mapping[str, DataFrame]) -> pa.Table | None:
        """The rows of plans over `columns_alone`, concatenated, in columns v0, v1 …

        None if a plan does more than select columns.
        """
        values = {
            identity: rows.column(at)
            for name, rows in self.few.items()
            for at, identity in enumerate(cat.output_of(cat.analyzed_plan(columns[name])))
        }
        tables = []
        for plan in plans:
            chosen = cat.chosen_columns(plan)
            if chosen is None or not values.keys() >= set(chosen):
                return None
            found = [values[each] for each in chosen]
            tables.append(with_stored_types(pa.table(found, names=[f"v{at}" for at in range(len(found))])))
        return pa.concat_tables(tables, promote_options="permissive")


def read_images(
    spark: SparkSession,
    sources: QuerySources,
    changes: Mapping[str, Sequence[GroupChange]],
    needed: Mapping[str, set[str]],
    most_bytes: int,
) -> SourceImages:
    """The rows of each reference before and after its table's changes, in the columns `needed`.

    `changes` are by base path. Raises NotTraceableError for meta columns.
    """
    few, many = {}, {}
    for reference in sources.references:
        if reference.path not in changes or reference.view_name not in needed:
            continue
        table = sources.tables[reference.path]
        wanted = {name.lower() for name in needed[reference.view_name]}
        schema = pa.schema([field for field in table.schema if field.name.lower() in wanted])
        if len(schema) < len(wanted):
            raise NotTraceableError("it reads meta columns of a source")
        rows = few_changed_images(spark, table, schema, changes[reference.path], most_bytes)
        if rows is None:
            many[reference.view_name] = changed_images(spark, table, schema, changes[reference.path])
        else:
            few[reference.view_name] = rows
    return SourceImages(few, many)


def _distinct(rows: pa.Table) -> pa.Table:
    # Only Spark knows which floating numbers are equal: 0.0 is -0.0, NaN is NaN.
    if any(pa.types.is_floating(field.type) for field in rows.schema):
        return rows
    return rows.group_by(rows.schema.names).aggregate([])


def _frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    return local_frame(spark, rows, spark_struct(rows.schema))
