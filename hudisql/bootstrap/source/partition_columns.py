"""Partition columns as the user or the metastore declares them, and the predicate that chooses partitions.

`partition_by => 'year int, dt date'` and Hive's partition types become Arrow types here; only this module
decides the types of partition columns in the table's schema. Spark evaluates `partition_filter`, over a small
local DataFrame of partition values, so that it means what it means in any query.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from hudisql.bootstrap.blockers import Finding, blocker, name_some, warning
from hudisql.bootstrap.source.source_files import PartitionColumn, SourcePartition
from hudisql.errors import InvalidArgumentError
from hudisql.format.paths.partition_path import (
    HIVE_DEFAULT_PARTITION,
    parse_partition_value,
    render_directory_value,
)
from hudisql.format.schema.avro_schema import TIMESTAMP
from hudisql.format.schema.internal_columns import internal_column
from hudisql.format.schema.spark_schema import quote_name, spark_type_name, with_local_zone

_TYPES: Final = {
    "string": pa.string(),
    "tinyint": pa.int32(),
    "smallint": pa.int32(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_DECIMAL: Final = re.compile(r"decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_CHARACTERS: Final = re.compile(r"(var)?char\s*\(\s*\d+\s*\)")
_DECLARATION: Final = re.compile(r"(`(?:[^`]|``)+`|[^\s`,()]+)(?:\s+(.+))?", re.DOTALL)
_COMMA: Final = re.compile(r",(?![^()]*\))")


def parse_partition_by(text: str) -> tuple[PartitionColumn, ...]:
    """The columns of `partition_by`: names with optional types (default string), separated by commas.

    Raises InvalidArgumentError for an unknown type or a text without a column name.
    """
    columns = []
    for declaration in _COMMA.split(text):
        matched = _DECLARATION.fullmatch(declaration.strip())
        if matched is None:
            raise InvalidArgumentError(
                f"partition_by '{text}' is not a list of columns",
                hint="write it as 'dt', 'dt date' or 'year int, month int'",
            )
        name, type_text = matched.groups()
        name = name[1:-1].replace("``", "`") if name.startswith("`") else name
        columns.append(PartitionColumn(name, partition_type(type_text or "string", name)))
    names = [column.name.lower() for column in columns]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidArgumentError(f"partition_by names {', '.join(repeated)} twice")
    return tuple(columns)


def partition_type(type_text: str, column: str) -> pa.DataType:
    """The Arrow type of a partition column declared in Spark's or Hive's words.

    Raises InvalidArgumentError for a type that partition columns cannot have.
    """
    plain = type_text.strip().lower()
    if plain in _TYPES:
        return _TYPES[plain]
    if matched := _DECIMAL.fullmatch(plain):
        return pa.decimal128(int(matched[1]), int(matched[2]))
    if _CHARACTERS.fullmatch(plain):
        return pa.string()
    raise InvalidArgumentError(
        f"partition column {column} cannot be of type '{type_text}'",
        hint=f"one of {', '.join(sorted(_TYPES))}, decimal(p,s)",
    )


def partition_fields(columns: Sequence[PartitionColumn]) -> list[pa.Field]:
    """The partition columns in the table's schema, and so in the metastore.

    Last, nullable and in their declared types, which Apache Hudi and Hive read correctly; but timestamps stay
    strings, since Hudi 0.15 would read NULL and name the directories of its own writes by epoch microseconds.
    """
    return [
        pa.field(column.name, pa.string() if pa.types.is_timestamp(column.type) else column.type)
        for column in columns
    ]


def filter_partitions(
    spark: Any,
    predicate: str,
    columns: Sequence[PartitionColumn],
    values: Sequence[tuple[str | None, ...]],
    *,
    parameter: str = "partition_filter",
) -> list[bool]:
    """The partitions that match `predicate` (SQL over the partition columns), evaluated by Spark.

    `parameter` is what errors call the predicate.

    Raises InvalidArgumentError with Spark's message if it is not a predicate over these columns.
    """
    from pyspark.errors import PySparkException

    named = ", ".join(f"{column.name} {spark_type_name(column.type)}" for column in columns)
    if not columns:
        raise InvalidArgumentError(f"{parameter} is given, but the source has no partition columns")
    if not values:
        return []
    position = internal_column("position")
    texts = spark.createDataFrame(
        [(number, *row) for number, row in enumerate(values)],
        ", ".join([f"`{position}` int", *(f"{quote_name(column.name)} string" for column in columns)]),
    )
    casts = [
        f"try_cast({quote_name(column.name)} AS {with_local_zone(spark_type_name(column.type))}) "
        f"AS {quote_name(column.name)}"
        for column in columns
    ]
    try:
        taken = texts.selectExpr(f"`{position}`", *casts).where(predicate).select(position).collect()
    except PySparkException as error:
        raise InvalidArgumentError(
            f"{parameter} '{predicate}' cannot be evaluated: {_reason_of(error, texts, casts, predicate)}",
            hint=f"it may use the partition columns only: {named}",
        ) from error
    chosen = {row[0] for row in taken}
    return [number in chosen for number in range(len(values))]


def _reason_of(error: Exception, texts: Any, casts: Sequence[str], predicate: str) -> str:
    """The first line of Spark's reason, with only the partition columns."""
    from pyspark.errors import PySparkException

    try:
        texts.selectExpr(*casts).where(predicate)
    except PySparkException as named:
        error = named
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def check_partition_values(
    columns: Sequence[PartitionColumn], partitions: Sequence[SourcePartition]
) -> list[Finding]:
    """Blockers for directory texts that do not fit the declared type, warnings for texts in another form."""
    findings: list[Finding] = []
    for index, column in enumerate(columns):
        type_name = spark_type_name(column.type)
        if empty := [partition.location for partition in partitions if partition.values[index] == ""]:
            findings.append(
                blocker(
                    f"partition column {column.name} has an empty value in {name_some(empty, 'directory')}",
                    hint=f"Spark and Hive cannot read it; NULL is written {HIVE_DEFAULT_PARTITION}",
                )
            )
        wrong: list[str] = []
        unusual: list[str] = []
        null = 0
        for text in {partition.values[index] for partition in partitions}:
            if not text:
                null += text is None
                continue
            try:
                value = parse_partition_value(text, column.type)
            except (ValueError, ArithmeticError):
                wrong.append(text)
                continue
            if not _stays_text(column.type) and render_directory_value(value, column.type) != text:
                unusual.append(text)
        if wrong:
            findings.append(
                blocker(
                    f"partition column {column.name} is declared {type_name}, which does not fit "
                    f"{name_some(sorted(wrong), 'value')}",
                    hint="declare it string, or correct the directories' names",
                )
            )
        if unusual:
            findings.append(
                warning(
                    f"partition column {column.name} {type_name}: other writers render"
                    f" {name_some(sorted(unusual), 'value')} otherwise, so that their upserts would open new"
                    " directories beside these",
                    hint="declare it string if Apache Hudi writes to the table",
                )
            )
        if null and pa.types.is_string(column.type):
            findings.append(
                warning(
                    f"partition column {column.name} is NULL in {HIVE_DEFAULT_PARTITION}: merges of Hudi 0.15"
                    " turn the NULLs of untouched rows into the text null (1.2 keeps them)"
                )
            )
        findings += _typed_column_findings(column, type_name)
    return findings


def _stays_text(column_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(column_type) or pa.types.is_timestamp(column_type))


def _typed_column_findings(column: PartitionColumn, type_name: str) -> list[Finding]:
    """The incompatibilities of a non-string partition column, as measured with Hudi 0.15.0 and 1.2.0.

    Both read typed partition columns correctly, in bare and in key=value directories. Hudi's own bootstrap
    only creates strings: 0.15's copy-on-write merge puts the directory's text into the typed column, 1.2's a
    Java date.
    """
    if pa.types.is_string(column.type):
        return []
    if pa.types.is_timestamp(column.type):
        return [
            warning(
                f"partition column {column.name} {type_name} becomes string: Hudi 0.15 reads timestamps there"
                " as NULL"
            )
        ]
    versions = "0.15 and 1.2" if pa.types.is_date(column.type) else "0.15"
    return [
        warning(
            f"partition column {column.name} {type_name}: Hudi reads it right, but upserts by {versions} to"
            " copy-on-write tables fail with a ClassCastException on files that are still bootstrapped",
            hint="declare it string if Apache Hudi writes to the table",
        )
    ]
