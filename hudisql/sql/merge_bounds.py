"""What a small source of a MERGE says of the target rows that can match: partitions and a range of keys.

Where the condition equates a partition or record key column with one of the source's, the source's values are
asked first, and put as literals into the join condition, so that the target's scan leaves out partitions and
row groups; few keys also rule out files by their bloom filters. The statement's meaning stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudisql.format.spark_schema import quote_name, spark_type_name
from hudisql.sql.clauses import MergeClauses
from hudisql.sql.scala_values import class_name, items_of
from hudisql.table.hudi_table import HudiTable
from hudisql.write.key_generator import has_composite_keys
from hudisql.write.record_keys import render_record_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_BYTES: Final = 32 << 20
_MOST_VALUES: Final = 200
_MOST_KEYS: Final = 5_000
_CHANGED: Final = "the source of the MERGE gave other rows when it was read again: run the statement again"


@dataclass(frozen=True, slots=True)
class MergeBounds:
    """Two conditions that hold anyway: on target rows that can match, and on all rows of the source.

    `keys` are the only record keys that can match, in the partitions of `partition_values` (of each column
    named there); None if they are too many, or not known.
    """

    target: str
    source: str
    keys: pa.StringArray | None = None
    partition_values: Mapping[str, frozenset[object]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Equated:
    """A column of the target that the condition equates with one of the source."""

    target: pa.Field
    source: str
    is_partition: bool


def find_merge_bounds(
    spark: SparkSession,
    table: HudiTable,
    clauses: MergeClauses,
    target: str,
    source: str,
    read_source: Callable[[], DataFrame],
) -> MergeBounds | None:
    """The bounds of a MERGE; `target` and `source` are the names that the two go by in it.

    None if target rows that nothing matches count as well, if the source is large or changes each time it is
    read, or if no condition fits. Raises Spark's own exceptions, from reading the source.
    """
    if any(action.matched == "not_matched_by_source" for action in clauses.actions):
        return None
    pairs = _equated_names(spark, table, clauses, target, source)
    if not pairs:
        return None
    frame = read_source()
    equated = _equated_columns(table, pairs, frame)
    if not equated or not _is_small_and_stable(frame):
        return None
    on_target, on_source = [], []
    keys: pa.StringArray | None = None
    partition_values: dict[str, frozenset[object]] = {}
    for each, (low, high, distinct) in zip(equated, _values_of(frame, equated), strict=True):
        texts = [_literal(value) for value in (low, high, *(distinct or ()))]
        if low is None or not all(texts):
            continue
        column, own = f"{target}.{quote_name(each.target.name)}", quote_name(each.source)
        between = f"BETWEEN {texts[0]} AND {texts[1]}"
        among = between if distinct is None else f"IN ({', '.join(text for text in texts[2:] if text)})"
        on_target.append(f"{column} {among if each.is_partition else between}")
        on_source.append(f"({own} IS NULL OR {own} {among})")
        if distinct is not None and each.is_partition:
            partition_values[each.target.name] = frozenset(distinct)
        elif distinct is not None:
            keys = _record_keys(table, each.target, distinct)
    if not on_target:
        return None
    guard = f"({' AND '.join(on_source)}) OR raise_error('{_CHANGED}') IS NULL"
    return MergeBounds(" AND ".join(on_target), guard, keys, partition_values)


def _record_keys(table: HudiTable, column: pa.Field, values: Sequence[object]) -> pa.StringArray | None:
    """The record keys of rows with these values, if the column alone makes them."""
    if table.properties.record_key_fields != (column.name,):
        return None
    rows = pa.record_batch([pa.array(values, column.type)], names=[column.name])
    return render_record_keys(rows, (column.name,), composite=has_composite_keys(table)).keys


def _equated_names(
    spark: Any, table: HudiTable, clauses: MergeClauses, target: str, source: str
) -> list[tuple[str, str]]:
    """Partition and key columns of the target with the source's columns that they must be equal to."""
    from py4j.protocol import Py4JError

    try:
        parser = spark._jsparkSession.sessionState().sqlParser()
        pairs = list(_equal_names(parser.parseExpression(clauses.condition.text)))
    except Py4JError:
        return []
    properties = table.properties
    partitions = [column.name for column in table.partition_columns]
    wanted = {name.lower() for name in (*partitions, *properties.record_key_fields)}
    sides = [each for one, other in pairs for each in ((one, other), (other, one))]
    return [
        (mine[1].lower(), theirs[1].lower())
        for mine, theirs in sides
        if mine[0].lower() == target.lower() and theirs[0].lower() == source.lower()
        if mine[1].lower() in wanted
    ]


def _equated_columns(table: HudiTable, pairs: Sequence[tuple[str, str]], frame: DataFrame) -> list[_Equated]:
    """The pairs whose columns have one type: a cast between them might not keep their order."""
    types = {name.lower(): (name, kind) for name, kind in frame.dtypes}
    fields = {column.name.lower(): column for column in table.schema}
    partitions = {column.name.lower() for column in table.partition_columns}
    found = []
    for mine, theirs in pairs:
        if mine in fields and theirs in types:
            column, (name, kind) = fields[mine], types[theirs]
            if kind == spark_type_name(column.type).lower() and _has_bounds(column.type):
                found.append(_Equated(column, name, mine in partitions))
    return found


def _equal_names(tree: Any) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """The two-part names on both sides of each equation that the whole condition implies."""
    kind = class_name(tree)
    if kind == "And":
        for child in items_of(tree.children()):
            yield from _equal_names(child)
    elif kind == "EqualTo":
        sides = list(items_of(tree.children()))
        if all(class_name(side) == "UnresolvedAttribute" for side in sides):
            names = [[str(part) for part in items_of(side.nameParts())] for side in sides]
            if all(len(name) == 2 for name in names):
                yield names[0], names[1]


def _is_small_and_stable(frame: DataFrame) -> bool:
    execution = frame._jdf.queryExecution()
    is_small = int(execution.optimizedPlan().stats().sizeInBytes()) <= _MOST_BYTES
    return is_small and bool(execution.analyzed().deterministic())


def _values_of(frame: DataFrame, equated: Sequence[_Equated]) -> list[tuple[Any, Any, list[Any] | None]]:
    """Least and greatest value of each column, and all of them if they are few."""
    from pyspark.sql import functions as sf

    columns = []
    for each in equated:
        column = sf.col(quote_name(each.source))
        columns += [sf.min(column), sf.max(column)]
        values = sf.collect_set(column)
        most = _MOST_VALUES if each.is_partition else _MOST_KEYS
        columns.append(sf.when(sf.size(values) <= most, sf.sort_array(values)))
    row = frame.agg(*columns).collect()[0]
    return [(row[3 * n], row[3 * n + 1], row[3 * n + 2]) for n in range(len(equated))]


def _has_bounds(value_type: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(value_type) or types.is_integer(value_type) or types.is_date(value_type))


def _literal(value: object) -> str | None:
    """The value as SQL; None for texts that would need escapes."""
    if isinstance(value, str):
        return f"'{value}'" if value.isprintable() and not set(value) & set("'\\\"") else None
    return f"DATE'{value.isoformat()}'" if isinstance(value, date) else str(value)
