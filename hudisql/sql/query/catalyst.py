"""What a query needs of each table it reads, asked from Spark's own optimizer.

For each reference a *placeholder* is registered: an empty parquet relation of the table's schema, marked with
the reference's id. Spark plans the query over the placeholders, and the physical plan's file scans tell
exactly which columns (nested fields too) and which row filters reach each reference, through joins, CTEs and
subqueries. Spark applies every filter again, so a filter that is not translated costs speed, never rows.
This module holds Catalyst's inner API; it knows neither Hudi nor the metastore.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudisql.format.schema.column_path import ColumnPath
from hudisql.read.files.predicates import (
    And,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    conjunction,
)
from hudisql.spark.jvm import analyzed_plan, is_instance, items_of, java_class, scala_object, session_state
from hudisql.spark.versions import frame_of_plan, scala_sequence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MARK = "hudisql.reference"
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
# Commands that run a query of the statement; to the parser INSERT is not a command.
_WITH_QUERY = ("AsSelect", "InsertIntoDir", "SetVariable")
_SEPARATOR = "\x01"
_COMPARISONS: Mapping[str, Operator] = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_SWAPPED: Mapping[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<=>": "<=>"}
# Expressions that need more than a row: Python, other rows, another plan.
_NOT_BY_ROW = ("UDF", "Subquery", "Dynamic", "Outer")
# Fields of a nested column that are needed; None: all of it.
FieldTree = dict[str, "FieldTree | None"]


@dataclass(frozen=True)
class PartitionCondition:
    """A filter that depends only on partition columns, after Spark's optimizer: the expression, and its text.

    The text is never parsed again, since the session's settings could change its meaning.
    """

    text: str
    expression: Any = field(compare=False, repr=False)


@dataclass(frozen=True)
class ScanNeeds:
    """What a query needs of one reference.

    `fields` names the columns (and their nested fields) or is None for all; `predicate` may be pushed down;
    `partition_conditions` are further filters on partition columns only. `is_read` is False if Spark proved
    that the table's content cannot change the result.
    """

    fields: FieldTree | None = None
    predicate: Predicate | None = None
    partition_conditions: tuple[PartitionCondition, ...] = ()
    is_read: bool = True


@dataclass(frozen=True)
class _Scan:
    fields: FieldTree
    predicates: tuple[Predicate, ...]
    conditions: tuple[PartitionCondition, ...]


def read_placeholder(
    spark: SparkSession, reference_id: str, schema_json: str, empty_directory: str
) -> DataFrame:
    """An empty relation of the schema (Spark's JSON), marked with `reference_id`.

    `empty_directory` is on the driver, whatever the cluster's default file system is.
    """
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(json.loads(schema_json))
    return (
        spark.read.schema(schema)
        .option(_MARK, reference_id)
        .format("parquet")
        .load(f"file:{empty_directory}")
    )


def find_scan_needs(
    spark: SparkSession, executions: Sequence[Any], partition_columns: Mapping[str, Collection[str]]
) -> dict[str, ScanNeeds]:
    """What a statement over placeholders, planned by `plan_without_running`, needs of each of them.

    `partition_columns` has the ids of all placeholders, with their partition columns.
    """
    scans: dict[str, list[_Scan]] = {}
    for execution in executions:
        for reference_id, node in _marked_scans(execution.executedPlan()):
            filters = [*items_of(node.dataFilters()), *items_of(node.partitionFilters())]
            described = _describe_scan(
                str(node.requiredSchema().json()), filters, partition_columns[reference_id]
            )
            scans.setdefault(reference_id, []).append(described)
    missing = set(partition_columns) - set(scans)
    # A placeholder missing in the physical plan was eliminated, unless it occurs in an unknown form.
    unknown: set[str | None] = set()
    for execution in executions if missing else ():
        unknown.update(_logical_marks(spark, execution.optimizedPlan()))
    return {
        reference_id: _merge_scans(scans[reference_id])
        if reference_id in scans
        else ScanNeeds(is_read=reference_id in unknown or None in unknown)
        for reference_id in partition_columns
    }


def plan_without_running(spark: SparkSession, plan: Any) -> list[Any]:
    """QueryExecution of a parsed statement, and of each query that a command in it contains (CTAS).

    Commands are planned and never run.
    """
    execution = session_state(spark).executePlan(plan, _not_running_commands(spark))
    inner = (plan_without_running(spark, query) for query in _queries_held_apart(execution.executedPlan()))
    return [execution, *chain.from_iterable(inner)]


def print_analyzed_plan(spark: SparkSession, parsed: Any) -> str:
    """The analyzed plan of a parsed query, or of a command with one, as text; empty for other commands."""
    kind = str(parsed.getClass().getSimpleName())
    if is_instance(spark, parsed, _COMMAND) and not kind.endswith(_WITH_QUERY):
        return ""
    execution = session_state(spark).executePlan(parsed, _not_running_commands(spark))
    return str(execution.analyzed().toString())


def _not_running_commands(spark: SparkSession) -> Any:
    return java_class(spark, "org.apache.spark.sql.execution.CommandExecutionMode").SKIP()


def _queries_held_apart(plan: Any) -> Iterator[Any]:
    kind = plan.getClass().getSimpleName()
    if kind == "ExecutedCommandExec":
        command = plan.cmd()
        yield from items_of(command.innerChildren())
    elif kind.endswith("AsSelectExec"):
        yield plan.query()
    for child in items_of(plan.children()):
        yield from _queries_held_apart(child)


def prune_schema(schema: pa.Schema, fields: FieldTree | None) -> pa.Schema:
    """The columns and nested fields of `schema` that `fields` names (all for None), in the schema's order."""
    return pa.schema(_prune_fields(list(schema), fields))


def translate_filter(expression: Any) -> Predicate | None:
    """A Catalyst filter expression as an equivalent predicate, or None."""
    kind = expression.getClass().getSimpleName()
    if kind in ("And", "Or"):
        left, right = translate_filter(expression.left()), translate_filter(expression.right())
        if left is None or right is None:
            return None
        return And((left, right)) if kind == "And" else Or((left, right))
    if kind == "Not":
        inner = translate_filter(expression.child())
        return None if inner is None else Not(inner)
    if kind in ("IsNull", "IsNotNull"):
        path = _column_path(expression.child())
        if path is None:
            return None
        return IsNull(path) if kind == "IsNull" else IsNotNull(path)
    if kind in _COMPARISONS:
        return _translate_comparison(expression, _COMPARISONS[kind])
    if kind in ("In", "InSet"):
        return _translate_membership(expression, kind)
    if kind == "StartsWith":
        path, prefix = _column_path(expression.left()), _literal_of(expression.right())
        return StartsWith(path, prefix[0]) if path and prefix and isinstance(prefix[0], str) else None
    if kind == "AttributeReference" and expression.dataType().typeName() == "boolean":
        return Comparison((str(expression.name()),), "=", True)
    return None


def _translate_comparison(expression: Any, operator: Operator) -> Predicate | None:
    path, literal = _column_path(expression.left()), _literal_of(expression.right())
    if path is None:
        path, literal, operator = (
            _column_path(expression.right()),
            _literal_of(expression.left()),
            _SWAPPED[operator],
        )
    if path is None or literal is None:
        return None
    if literal[0] is None and operator != "<=>":
        return None
    return Comparison(path, operator, literal[0])


def _translate_membership(expression: Any, kind: str) -> Predicate | None:
    if kind == "In":
        path = _column_path(expression.value())
        literals = [_literal_of(item) for item in items_of(expression.list())]
        if path is None or any(literal is None for literal in literals):
            return None
        return In(path, tuple(literal[0] for literal in literals if literal is not None))
    path = _column_path(expression.child())
    values = expression.hset()
    type_name = str(expression.child().dataType().typeName())
    if path is None or type_name == "binary" or values.contains(None):
        return None
    # One call for all of them: a set can have thousands.
    texts = str(values.mkString(_SEPARATOR)).split(_SEPARATOR)
    if len(texts) != values.size():
        return None
    try:
        return In(path, tuple(_value_from_text(text, type_name) for text in texts))
    except (ValueError, OverflowError, ArithmeticError):
        return None


def _column_path(expression: Any) -> ColumnPath | None:
    """The path of a column or a struct field whose type compares equally in Arrow."""
    kind = expression.getClass().getSimpleName()
    if kind == "GetStructField":
        parent = _column_path(expression.child())
        return None if parent is None else (*parent, str(expression.extractFieldName()))
    if kind == "AttributeReference":
        # Collated strings have their own comparison.
        return None if "collate" in str(expression.dataType().typeName()) else (str(expression.name()),)
    return None


def _literal_of(expression: Any) -> tuple[object] | None:
    """The value of a literal (in a tuple, since it may be None), or None for an unknown literal."""
    if expression.getClass().getSimpleName() != "Literal":
        return None
    value = expression.value()
    if value is None:
        return (None,)
    type_name = str(expression.dataType().typeName())
    try:
        if type_name in ("boolean", "byte", "short", "integer", "long", "float", "double"):
            return (value,)
        if type_name == "binary":
            return (bytes(value),)
        return (_value_from_text(str(value), type_name),)
    except (ValueError, OverflowError, ArithmeticError):
        return None


def _value_from_text(text: str, type_name: str) -> object:
    """A Catalyst value, printed, as a Python value: dates are days, timestamps microseconds of the epoch."""
    if type_name == "string":
        return text
    if type_name in ("byte", "short", "integer", "long"):
        return int(text)
    if type_name in ("float", "double"):
        return float(text)
    if type_name == "date":
        return date(1970, 1, 1) + timedelta(days=int(text))
    if type_name == "timestamp":
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(text))
    if type_name == "timestamp_ntz":
        return datetime(1970, 1, 1) + timedelta(microseconds=int(text))
    if type_name.startswith("decimal"):
        return Decimal(text)
    raise ValueError(f"values of type {type_name} are not compared in scans")


def _marked_scans(plan: Any) -> Iterator[tuple[str, Any]]:
    """The file scans of placeholders in a physical plan and its subqueries, with their marks."""
    kind = plan.getClass().getSimpleName()
    if kind == "FileSourceScanExec":
        mark = plan.relation().options().get(_MARK)
        if mark.isDefined():
            yield str(mark.get()), plan
    elif kind == "AdaptiveSparkPlanExec":
        yield from _marked_scans(plan.initialPlan())
    for inner in (*items_of(plan.children()), *items_of(plan.subqueries())):
        yield from _marked_scans(inner)


def _logical_marks(spark: Any, plan: Any) -> Iterator[str | None]:
    """The marks in an optimized plan; None for a command, which may hide a query."""
    if plan.getClass().getSimpleName() == "LogicalRelation":
        mark = plan.relation().options().get(_MARK)
        if mark.isDefined():
            yield str(mark.get())
    elif is_instance(spark, plan, _COMMAND):
        yield None
    for inner in (*items_of(plan.children()), *items_of(plan.subqueries())):
        yield from _logical_marks(spark, inner)


def _describe_scan(required_schema: str, filters: Iterable[Any], partition_columns: Collection[str]) -> _Scan:
    predicates: list[Predicate] = []
    conditions: list[PartitionCondition] = []
    for expression in filters:
        predicate = translate_filter(expression)
        if predicate is not None:
            predicates.append(predicate)
        elif (condition := partition_condition(expression, partition_columns)) is not None:
            conditions.append(condition)
    return _Scan(_fields_of(json.loads(required_schema)) or {}, tuple(predicates), tuple(conditions))


def partition_condition(expression: Any, partition_columns: Collection[str]) -> PartitionCondition | None:
    """The filter as text, if Spark can evaluate it on a partition's values."""
    attributes = list(items_of(expression.references().toSeq()))
    # An analyzed filter has the names as the user writes them.
    known = {name.lower() for name in partition_columns}
    if (
        not attributes
        or not all(str(attribute.name()).lower() in known for attribute in attributes)
        or not expression.deterministic()
        or any(word in kind for kind in _kinds_in(expression) for word in _NOT_BY_ROW)
    ):
        return None
    return PartitionCondition(str(expression.sql()), expression)


def rows_that_meet(rows: DataFrame, condition: PartitionCondition) -> DataFrame:
    """The rows of `rows`, which has the condition's columns by their names, that fulfil the condition.

    Raises Spark's own exceptions.
    """
    spark: Any = rows.sparkSession
    plans = "org.apache.spark.sql.catalyst.plans.logical"
    alias = java_class(spark, "org.apache.spark.sql.catalyst.expressions.Alias")
    none = java_class(spark, "scala.Option").empty()
    plan = analyzed_plan(rows)
    empty = scala_object(spark, "scala.collection.immutable.Nil")
    meant = {str(item.name()).lower(): item for item in items_of(condition.expression.references().toSeq())}
    columns = []
    for column in items_of(plan.output()):
        wanted = meant.get(str(column.name()).lower())
        # The condition refers to columns of its own plan by their ids.
        columns.append(
            column if wanted is None else alias(column, wanted.name(), wanted.exprId(), empty, none, empty)
        )
    project = java_class(spark, f"{plans}.Project")(scala_sequence(spark, columns), plan)
    kept = java_class(spark, f"{plans}.Filter")(condition.expression, project)
    return frame_of_plan(spark, kept)


def _kinds_in(expression: Any) -> Iterator[str]:
    yield str(expression.getClass().getSimpleName())
    for child in items_of(expression.children()):
        yield from _kinds_in(child)


def _merge_scans(scans: list[_Scan]) -> ScanNeeds:
    """One read for all scans of a reference (a CTE used twice is planned twice)."""
    fields: FieldTree = {}
    for scan in scans:
        _merge_fields(fields, scan.fields)
    filters = list(dict.fromkeys((conjunction(scan.predicates), scan.conditions) for scan in scans))
    if len(filters) == 1:
        return ScanNeeds(fields, *filters[0])
    parts = [predicate for predicate, _ in filters]
    if any(predicate is None for predicate in parts):
        return ScanNeeds(fields)
    return ScanNeeds(fields, Or(tuple(predicate for predicate in parts if predicate is not None)))


def _fields_of(spark_type: Any) -> FieldTree | None:
    if not isinstance(spark_type, dict):
        return None
    if spark_type["type"] == "struct":
        return {field["name"]: _fields_of(field["type"]) for field in spark_type["fields"]}
    # Maps are read whole: their keys can be structs, too.
    return _fields_of(spark_type["elementType"]) if spark_type["type"] == "array" else None


def _merge_fields(into: FieldTree, more: FieldTree) -> None:
    for name, inner in more.items():
        known = into.setdefault(name, inner)
        if known is not None and inner is not None and known is not inner:
            _merge_fields(known, inner)
        elif inner is None:
            into[name] = None


def _prune_fields(fields: Iterable[pa.Field], tree: FieldTree | None) -> list[pa.Field]:
    if tree is None:
        return list(fields)
    return [
        struct_field.with_type(_prune_type(struct_field.type, tree[struct_field.name]))
        for struct_field in fields
        if struct_field.name in tree
    ]


def _prune_type(data_type: pa.DataType, tree: FieldTree | None) -> pa.DataType:
    """`tree` belongs to the nearest struct: Spark prunes below lists as well."""
    if tree is None:
        return data_type
    if pa.types.is_struct(data_type):
        return pa.struct(_prune_fields(data_type, tree))
    if pa.types.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(_prune_type(data_type.value_type, tree)))
    return data_type
