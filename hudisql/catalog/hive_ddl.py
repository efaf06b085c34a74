"""A sync plan's entries as lines of Hive DDL, for a reader; nothing runs this text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import MetastoreColumn, MetastoreTable
from hudisql.sql_literals import quote_string

if TYPE_CHECKING:
    from hudisql.catalog.sync_plan import EntrySync

_SHOWN_PARTITIONS = 5


def describe_entry(entry: EntrySync) -> Iterator[str]:
    """What is to be done for one entry, in the order in which it runs."""
    name = entry.table.full_name
    if entry.existing is None:
        yield from _describe_creation(entry.table)
    if entry.added_columns:
        yield f"ALTER TABLE {name} ADD COLUMNS ({column_list(entry.added_columns)}) CASCADE"
    for before, after in entry.changed_columns:
        yield f"ALTER TABLE {name} CHANGE COLUMN {before.name} {_column_text(after)} CASCADE"
    for column in entry.dropped_columns:
        yield f"ALTER TABLE {name} DROP COLUMN {column.name} CASCADE"
    for change in entry.changed_properties:
        yield f"ALTER TABLE {name} SET {change}"
    columns = entry.table.partition_columns
    for verb, values in (
        ("ADD", [partition.values for partition in entry.added_partitions]),
        ("CHANGE", [partition.values for partition in entry.changed_partitions]),
        ("DROP", list(entry.dropped_partitions)),
    ):
        if values:
            yield f"ALTER TABLE {name} {verb} {len(values)} PARTITIONS: {_partition_list(columns, values)}"


def _describe_creation(table: MetastoreTable) -> Iterator[str]:
    yield f"CREATE {'EXTERNAL ' if table.is_external else ''}TABLE {table.full_name} ("
    for number, column in enumerate(table.columns, 1):
        yield f"  {_column_text(column)}{',' if number < len(table.columns) else ')'}"
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


def _partition_list(columns: Sequence[MetastoreColumn], values: Sequence[Sequence[str]]) -> str:
    shown = [
        "/".join(f"{column.name}={value}" for column, value in zip(columns, each, strict=True))
        for each in values[:_SHOWN_PARTITIONS]
    ]
    return ", ".join(shown) + (" …" if len(values) > _SHOWN_PARTITIONS else "")


def column_list(columns: Sequence[MetastoreColumn]) -> str:
    """Columns as in a DDL statement."""
    return ", ".join(_column_text(column) for column in columns) or "nothing"


def _column_text(column: MetastoreColumn) -> str:
    comment = f" COMMENT {quote_string(column.comment)}" if column.comment else ""
    return f"{column.name} {column.type}{comment}"


def shorten(value: str | None) -> str:
    """A property's value in a line, cut where it is long."""
    if value is None:
        return "(none)"
    return value if len(value) <= 80 else f"{value[:60]}… ({len(value)} characters)"
