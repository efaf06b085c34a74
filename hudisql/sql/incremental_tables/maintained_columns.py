"""The columns of an incremental table by whose values a refresh recomputes its rows, and these values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudisql.read.change_capture import GroupChange
from hudisql.read.change_scan import changed_images
from hudisql.spark.few_rows import MOST_ROWS, collect_few_rows, local_frame
from hudisql.spark.java_objects import class_name, items_of
from hudisql.spark.versions import to_arrow
from hudisql.sql.incremental_tables import catalyst_plans as cat
from hudisql.sql.incremental_tables.affected_values import AffectedValues, ChangedSource, NotTraceableError
from hudisql.sql.incremental_tables.sources import QuerySources
from hudisql.sql.incremental_tables.value_bounds import value_bounds

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pyspark.sql import DataFrame, SparkSession


MOST_VALUES: Final = 500_000
_MOST_BYTES: Final = 32 << 20
"""Of the changed rows' values in Spark's plan, as it estimates them."""
_WAYS: Final = (("Window", "window partitions"), ("Aggregate", "groups"), ("Distinct", "groups"))


@dataclass(frozen=True)
class MaintainedValues:
    """The affected values: `frame` has them in columns v0, v1 … for `columns` of the target.

    `few` are the same values on the driver, if they are few. `bounds` are conditions on the columns that hold
    for all of them.
    """

    columns: tuple[str, ...]
    frame: DataFrame
    few: pa.Table | None
    way: str
    bounds: tuple[str, ...] = ()


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
    """The values that changes of the sources (by base path) can affect in the query's result.

    `key` is that of the target's rows, `partitions` are those of its partition columns whose values are the
    query's. `analyzed` are the query's analyzed plan over empty tables, and its
    sources by the names in it; `over_rows` gives those over the sources' rows, which joins need. Raises
    NotTraceableError.
    """
    root, sources = analyzed
    chosen = _choose(_walk(spark, sources, dict.fromkeys(changes)), root, key, partitions)
    walk = _walk(spark, sources, dict.fromkeys(changes))
    walk.plans(root, chosen)
    if walk.joins_back:
        places = {cat.attribute_id(each): at for at, each in enumerate(items_of(root.output()))}
        root, sources = over_rows()
        output = list(items_of(root.output()))
        chosen = [output[places[cat.attribute_id(each)]] for each in chosen]
        walk = _walk(spark, sources, dict.fromkeys(changes))
        walk.plans(root, chosen)
    images = _read_images(spark, sources, changes, walk.needed, most_bytes)
    plans = _walk(spark, sources, images).plans(root, chosen)
    names = [f"v{at}" for at in range(len(chosen))]
    frames = [cat.frame_of(spark, cat.project(spark, chosen, each), names) for each in plans]
    columns = tuple(str(each.name()) for each in chosen)
    if not frames:
        # Compactions and clusterings move rows and change none.
        none = cat.frame_of(spark, cat.project(spark, chosen, root), names).schema
        return MaintainedValues(columns, spark.createDataFrame([], none), None, "rows", ("false",))
    frame, few = distinct_values(reduce(lambda one, two: one.unionAll(two), frames), resources)
    return MaintainedValues(columns, frame, few, _way(root, walk), value_bounds(columns, frame, few))


def _walk(
    spark: SparkSession, sources: QuerySources, images: Mapping[str, Mapping[str, DataFrame] | None]
) -> AffectedValues:
    changed = {}
    for each in sources.references:
        if each.path in images:
            read = images[each.path]
            changed[each.view_name] = ChangedSource(
                each.view_name, None if read is None else read.get(each.view_name)
            )
    others = {each.view_name for each in sources.references} - changed.keys()
    return AffectedValues(spark, changed, frozenset(others) | sources.constant)


def _choose(walk: AffectedValues, root: Any, key: Sequence[str], partitions: Sequence[str]) -> list[Any]:
    """The columns of the result to maintain by: the key if that is possible, else as many as possible.

    With the key those that say in which partitions of the table the rows are, so that others are not read.
    """
    output = [each for each in items_of(root.output()) if cat.is_exact(each)]
    by_name = {str(each.name()).lower(): each for each in output}
    own = [by_name[name.lower()] for name in key if name.lower() in by_name]
    reason: NotTraceableError | None = None
    if len(own) == len(key):
        try:
            walk.plans(root, own)
            given = [by_name[each.lower()] for each in partitions if each.lower() in by_name]
            return _with_partitions(walk, root, own, given)
        except NotTraceableError as error:
            reason = error
    single = [each for each in output if _is_traceable(walk, root, [each])]
    chosen: list[Any] = []
    # Columns of the key first: they tell most.
    for each in sorted(single, key=lambda column: column not in own):
        if _is_traceable(walk, root, [*chosen, each]):
            chosen.append(each)
    if not chosen:
        raise reason or NotTraceableError("no column of the result tells which of its rows a change affects")
    return chosen


def _with_partitions(
    walk: AffectedValues, root: Any, columns: list[Any], partitions: Sequence[Any]
) -> list[Any]:
    """The columns, and those of the partitions that can be told without reading rows that did not change."""
    known = {cat.attribute_id(each) for each in columns}
    joins_back = walk.joins_back
    for each in partitions:
        if cat.attribute_id(each) in known:
            continue
        if _is_traceable(walk, root, [*columns, each]) and walk.joins_back == joins_back:
            columns = [*columns, each]
        walk.joins_back = joins_back
    return columns


def _is_traceable(walk: AffectedValues, root: Any, columns: list[Any]) -> bool:
    try:
        walk.plans(root, columns)
    except NotTraceableError:
        return False
    return True


def _read_images(
    spark: SparkSession,
    sources: QuerySources,
    changes: Mapping[str, Sequence[GroupChange]],
    needed: Mapping[str, set[str]],
    most_bytes: int,
) -> dict[str, dict[str, DataFrame]]:
    """The rows before and after the changes, by base path and reference, in the columns that are needed."""
    found: dict[str, dict[str, DataFrame]] = {path: {} for path in changes}
    for reference in sources.references:
        if reference.view_name not in needed:
            continue
        table = sources.tables[reference.path]
        wanted = {name.lower() for name in needed[reference.view_name]}
        schema = pa.schema([each for each in table.schema if each.name.lower() in wanted])
        if len(schema) < len(wanted):
            raise NotTraceableError("it asks for meta columns of a source")
        found[reference.path][reference.view_name] = changed_images(
            spark, table, schema, changes[reference.path], most_bytes
        )
    return found


def distinct_values(frame: DataFrame, resources: ExitStack) -> tuple[DataFrame, pa.Table | None]:
    """The frame's different rows, computed once, and the same on the driver if they are few.

    Raises Spark's own exceptions. What Spark holds is given back with `resources`.
    """
    from pyspark.sql.types import DoubleType, FloatType

    spark, schema = frame.sparkSession, frame.schema
    different = frame.distinct()
    # Of floating numbers Spark alone knows which are equal: 0.0 is -0.0, NaN is NaN.
    is_exact = not any(isinstance(each.dataType, FloatType | DoubleType) for each in schema)
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
    return local_frame(spark, few, schema), few


def _way(root: Any, walk: AffectedValues) -> str:
    kinds = set(_kinds(root))
    for kind, way in _WAYS:
        if kind in kinds:
            return way
    return "joined rows" if walk.joins_back or "Join" in kinds else "rows"


def _kinds(node: Any) -> list[str]:
    children = [kind for each in items_of(node.children()) for kind in _kinds(each)]
    return [class_name(node), *children]
