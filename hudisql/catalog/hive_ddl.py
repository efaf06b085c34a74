"""Metastore entries as lines of Hive DDL, for a reader; nothing runs this text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hudisql.catalog.metastore_table import MetastoreColumn, MetastoreTable
from hudisql.sql_literals import quote_string

_SHOWN_PARTITIONS = 5


def describe_creation(table: MetastoreTable) -> Iterator[str]:
    """The CREATE TABLE of an entry."""
    yield f"CREATE {'EXTERNAL ' if table.is_external else ''}TABLE {table.full_name} ("
    for number, column in enumerate(table.columns, 1):
        yield f"  {column_text(column)}{',' if number < len(table.columns) else ')'}"
    if table.partition_columns:
        yield f"PARTITIONED BY ({column_list(table.partition_columns)})"
    properties = ", ".join(f"{key}={quote_string(value)}" for key, value in table.serde_properties.items())
    yield f"ROW FORMAT SERDE {quote_string(table.serde or '')} WITH SERDEPROPERTIES ({properties})"
    yield f"STORED AS INPUTFORMAT {quote_string(table.input_format or '')}"
    yield f"  OUTPUTFORMAT {quote_string(table.output_format or '')}"
    yield f"LOCATION {quote_string(table.location or '')}"
    yield "TBLPROPERTIES ("
    for number, (key, value) in enumerate(table.parameters.items(), 1):
        end = "," if number < len(table.parameters) else ")"
        yield f"  {quote_string(key)}={quote_string(shorten(value))}{end}"


def partition_list(columns: Sequence[MetastoreColumn], values: Sequence[Sequence[str]]) -> str:
    """The first partitions as `column=value` pairs."""
    shown = [
        "/".join(f"{column.name}={value}" for column, value in zip(columns, partition_values, strict=True))
        for partition_values in values[:_SHOWN_PARTITIONS]
    ]
    return ", ".join(shown) + (" …" if len(values) > _SHOWN_PARTITIONS else "")


def column_list(columns: Sequence[MetastoreColumn]) -> str:
    """Columns as in a DDL statement."""
    return ", ".join(column_text(column) for column in columns) or "nothing"


def column_text(column: MetastoreColumn) -> str:
    """A column as in a DDL statement."""
    comment = f" COMMENT {quote_string(column.comment)}" if column.comment else ""
    return f"{column.name} {column.type}{comment}"


def shorten(value: str | None) -> str:
    """A property's value in a line, cut where it is long."""
    if value is None:
        return "(none)"
    return value if len(value) <= 80 else f"{value[:60]}… ({len(value)} characters)"
