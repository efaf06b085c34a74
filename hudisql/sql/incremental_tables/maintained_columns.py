"""The columns by whose values a refresh recomputes an incremental table's rows, and these values.

The values come from the changed rows of the sources before and after their changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudisql.read.changes.change_capture import GroupChange
from hudisql.read.changes.change_scan import changed_images, few_changed_images
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.spark.few_rows import MOST_ROWS, arrow_frame, collect_few_rows, local_frame, with_stored_types
from hudisql.spark.versions import to_arrow
from hudisql.sql.incremental_tables import catalyst_plans as cat
from hudisql.sql.incremental_tables.affected_values import AffectedValues, NotTraceableError
from hudisql.sql.incremental_tables.sources import QuerySources
from hudisql.sql.incremental_tables.value_bounds import ValueBound, value_bounds

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


MOST_VALUES: Final = 500_000
_MOST_IN_PLAN: Final = 10_000
_MOST_BYTES: Final = 32 << 20
"""Limit of the changed rows' values in Spark's plan, as Spark estimates them."""
_NEVER: Final = ValueBound("false", "false")
_WAYS: Final = (("Window", "window partitions"), ("Aggregate", "groups"), ("Distinct", "groups"))


@dataclass(frozen=True)
class MaintainedValues:
    """The affected values: `frame` has them in columns v0, v1 … for `columns` of the target.

    `few` are the same values on the driver, below a limit. `bounds` are conditions on the columns that hold
    for all of them.
    """

    columns: tuple[str, ...]
    frame: DataFrame
    few: pa.Table | None
    way: str
    bounds: tuple[ValueBound, ...] = ()


def affected_values(
    spark: SparkSession,
    analyzed: tuple[Any, QuerySources],
    over_rows: Callable[[], tuple[Any, QuerySources]],
    changes: Mapping[str, Sequence[GroupChange]],
    key: Sequence[str],
    partitions: Sequence[str],
    most_bytes: int,
    resources: ExitStack,
) -> MaintainedValues:
    """The values in the query's result that changes of the sources (by base path) can affect.

    `key` is that of the target's rows, `partitions` are those of its partition columns whose values come from
    the query. `analyzed` are the query's analyzed plan over empty tables, and its sources by their names in
    it; `over_rows` returns those over the sources' rows, which joins need. Raises NotTraceableError.
    """
    root, sources = analyzed
    chosen = _choose(_walk(spark, sources, changes), root, key, partitions)
    walk = _walk(spark, sources, changes)
    walk.plans(root, chosen)
    if walk.joins_back:
        places = {cat.attribute_id(part): at for at, part in enumerate(cat.parts_of(root, "output"))}
        root, sources = over_rows()
        output = cat.parts_of(root, "output")
        chosen = [output[places[cat.attribute_id(attribute)]] for attribute in chosen]
        walk = _walk(spark, sources, changes)
        walk.plans(root, chosen)
    images = read_images(spark, sources, changes, walk.needed, most_bytes)
    columns = tuple(cat.name_of(attribute) for attribute in chosen)

    def plans_over(frames: Mapping[str, DataFrame]) -> list[Any]:
        covers = _walk(spark, sources, changes, frames).plans(root, chosen)
        return [cat.project(spark, chosen, cover) for cover in covers]

    names = [f"v{at}" for at in range(len(chosen))]
    found = None
    if not (walk.joins_back or images.many):
        found = _values_on_driver(spark, images, plans_over, names)
    if found is None:
        frames = [cat.frame_of(spark, plan, names) for plan in plans_over(images.frames(spark))]
        if not frames:
            # Compactions and clusterings move rows without changing them.
            none = cat.frame_of(spark, cat.project(spark, chosen, root), names).schema
            return MaintainedValues(columns, spark.createDataFrame([], none), None, "rows", (_NEVER,))
        found = distinct_values(reduce(lambda one, two: one.unionAll(two), frames), resources)
    frame, few = found
    return MaintainedValues(columns, frame, few, _way(root, walk), value_bounds(columns, frame, few))


def _values_on_driver(
    spark: SparkSession,
    images: SourceImages,
    plans_over: Callable[[Mapping[str, DataFrame]], list[Any]],
    names: Sequence[str],
) -> tuple[DataFrame, pa.Table] | None:
    """The distinct values and their frame, if they are few and need no computation."""
    from pyspark.sql.types import StructField, StructType

    columns = images.columns_alone(spark)
    plans = plans_over(columns)
    values = images.values_of(plans, columns) if plans else None
    if values is None:
        return None
    few = values.group_by(values.schema.names).aggregate([])
    if few.num_rows > MOST_VALUES:
        return None
    types = cat.frame_of(spark, plans[0], names).schema
    schema = StructType([StructField(field.name, field.dataType) for field in types])
    return _frame_of(spark, few, schema), few


def _walk(
    spark: SparkSession,
    sources: QuerySources,
    changed_paths: Collection[str],
    images: Mapping[str, DataFrame] = MappingProxyType({}),
) -> AffectedValues:
    changed = {
        reference.view_name: images.get(reference.view_name)
        for reference in sources.references
        if reference.entry.path in changed_paths
    }
    others = {reference.view_name for reference in sources.references} - changed.keys()
    return AffectedValues(spark, changed, frozenset(others) | sources.constant)


def _choose(walk: AffectedValues, root: Any, key: Sequence[str], partitions: Sequence[str]) -> list[Any]:
    """Select the result columns: the key if possible, else as many as possible.

    With the key also those that determine the table's partitions, so that others are not read.
    """
    output = [part for part in cat.parts_of(root, "output") if cat.is_exact(part)]
    by_name = {cat.name_of(attribute).lower(): attribute for attribute in output}
    own = [by_name[name.lower()] for name in key if name.lower() in by_name]
    reason: NotTraceableError | None = None
    if len(own) == len(key):
        try:
            walk.plans(root, own)
            given = [by_name[partition.lower()] for partition in partitions if partition.lower() in by_name]
            return _with_partitions(walk, root, own, given)
        except NotTraceableError as error:
            reason = error
    single = [attribute for attribute in output if _is_traceable(walk, root, [attribute])]
    chosen: list[Any] = []
    # Columns of the key first: they are the most selective.
    for attribute in sorted(single, key=lambda column: column not in own):
        if _is_traceable(walk, root, [*chosen, attribute]):
            chosen.append(attribute)
    if not chosen:
        raise reason or NotTraceableError("no column of the result tells which of its rows a change affects")
    return chosen


def _with_partitions(
    walk: AffectedValues, root: Any, columns: list[Any], partitions: Sequence[Any]
) -> list[Any]:
    """The columns, and those of the partitions that can be determined without reading unchanged rows."""
    known = {cat.attribute_id(column) for column in columns}
    joins_back = walk.joins_back
    for partition in partitions:
        if cat.attribute_id(partition) in known:
            continue
        if _is_traceable(walk, root, [*columns, partition]) and walk.joins_back == joins_back:
            columns = [*columns, partition]
        walk.joins_back = joins_back
    return columns


def _is_traceable(walk: AffectedValues, root: Any, columns: list[Any]) -> bool:
    try:
        walk.plans(root, columns)
    except NotTraceableError:
        return False
    return True


def distinct_values(frame: DataFrame, resources: ExitStack) -> tuple[DataFrame, pa.Table | None]:
    """The frame's distinct rows, computed once, and the same on the driver if they are few.

    Raises Spark's own exceptions. `resources` releases what Spark caches.
    """
    from pyspark.sql.types import DoubleType, FloatType

    spark, schema = frame.sparkSession, frame.schema
    different = frame.distinct()
    # Only Spark knows which floating numbers are equal: 0.0 is -0.0, NaN is NaN.
    is_exact = not any(isinstance(field.dataType, FloatType | DoubleType) for field in schema)
    few = collect_few_rows(frame if is_exact else different, most_bytes=_MOST_BYTES, most_rows=MOST_VALUES)
    if few is not None and is_exact:
        few = few.group_by(few.schema.names).aggregate([])
    if few is None or few.num_rows > MOST_VALUES:
        different = different.persist()
        resources.callback(different.unpersist)
        # They may be of any width.
        most = min(MOST_VALUES, MOST_ROWS)
        few = to_arrow(different.limit(most + 1))
        if few.num_rows > most:
            return different, None
    return _frame_of(spark, few, schema), few


def _frame_of(spark: SparkSession, values: pa.Table, schema: StructType) -> DataFrame:
    make = local_frame if values.num_rows <= _MOST_IN_PLAN else arrow_frame
    return make(spark, values, schema)


def _way(root: Any, walk: AffectedValues) -> str:
    kinds = set(_kinds(root))
    for kind, way in _WAYS:
        if kind in kinds:
            return way
    return "joined rows" if walk.joins_back or "Join" in kinds else "rows"


def _kinds(node: Any) -> list[str]:
    children = [kind for child in cat.children_of(node) for kind in _kinds(child)]
    return [cat.class_name(node), *children]


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
            value_columns = [values[identity] for identity in chosen]
            names = [f"v{at}" for at in range(len(value_columns))]
            tables.append(with_stored_types(pa.table(value_columns, names=names)))
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
        if reference.entry.path not in changes or reference.view_name not in needed:
            continue
        table = sources.tables[reference.entry.path]
        wanted = {name.lower() for name in needed[reference.view_name]}
        schema = pa.schema([field for field in table.schema if field.name.lower() in wanted])
        if len(schema) < len(wanted):
            raise NotTraceableError("it reads meta columns of a source")
        rows = few_changed_images(spark, table, schema, changes[reference.entry.path], most_bytes)
        if rows is None:
            many[reference.view_name] = changed_images(spark, table, schema, changes[reference.entry.path])
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
