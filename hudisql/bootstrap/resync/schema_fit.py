"""Checks whether the columns of new source files fit an existing table.

A bootstrap chooses the table's columns by its files; a resync keeps the table's: a file may have narrower
types, and with `widen` lack columns; a column that the table lacks would be lost, so it stops the resync.
Values in, values out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from hudisql.bootstrap.blockers import Finding, blocker, name_some, warning
from hudisql.bootstrap.plan.schema_drift import SchemaDrift
from hudisql.bootstrap.source.footers import SourceColumn, SourceSchema
from hudisql.format.schema.spark_schema import quote_name, spark_type_name
from hudisql.format.schema.type_widening import is_same_type, widest_type


def check_columns_fit(
    files: Mapping[SourceSchema, Sequence[str]], columns: Sequence[pa.Field], drift: SchemaDrift, table: str
) -> Iterator[Finding]:
    """Findings on the columns of `files` (paths by schema); `columns` are the table's data columns.

    Columns of unsupported types have separate findings. `table` is its name.
    """
    for field in columns:
        yield from _check_column(files, field, drift)
    known = {field.name.lower() for field in columns}
    added: dict[tuple[str, str], list[str]] = {}
    for schema, paths in files.items():
        for column in schema.columns:
            if column.name.lower() not in known and column.type is not None:
                added.setdefault((column.name, spark_type_name(column.type)), []).extend(paths)
    for (name, type_name), paths in sorted(added.items()):
        yield blocker(
            f"column {name} {type_name} of {name_some(paths)} is not in the table",
            hint=f"ALTER TABLE {table} ADD COLUMNS ({quote_name(name)} {type_name}) adds it; it is NULL in"
            " older rows",
        )


def _check_column(
    files: Mapping[SourceSchema, Sequence[str]], field: pa.Field, drift: SchemaDrift
) -> Iterator[Finding]:
    without: list[str] = []
    by_type: dict[str, tuple[pa.DataType, list[str]]] = {}
    for schema, paths in files.items():
        stored = _column_of(schema, field.name)
        if stored is None:
            without += paths
        elif stored.type is not None and not is_same_type(field.type, stored.type):
            by_type.setdefault(str(stored.type), (stored.type, []))[1].extend(paths)
    if without:
        message = f"column {field.name} of the table is missing in {name_some(without)}"
        if drift is SchemaDrift.FAIL:
            yield blocker(
                message, hint="on_schema_drift => 'widen' accepts the files: it is NULL in their rows"
            )
        else:
            yield warning(f"{message}: it is NULL there")
    for stored_type, paths in by_type.values():
        wanted, found = spark_type_name(field.type), spark_type_name(stored_type)
        message = f"column {field.name} is {found} in {name_some(paths)} and {wanted} in the table"
        if widest_type(field.type, stored_type) == field.type:
            yield warning(f"{message}: its values are widened")
        else:
            yield blocker(
                message,
                hint="write these files again with the table's type, or make the table's type wider first"
                " (ALTER TABLE … ALTER COLUMN … TYPE …)",
            )


def _column_of(schema: SourceSchema, name: str) -> SourceColumn | None:
    columns = {column.name.lower(): column for column in schema.columns}
    return columns.get(name.lower())
