"""Writing a DataFrame into a Hudi table, with Hudi's names for operations and options.

The other face of what INSERT and MERGE do: rows are matched by record key. Columns are found by name, cast as
INSERT casts, and missing ones are null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hudisql.errors import InvalidArgumentError, NoSuchTableError, WriteRefusedError
from hudisql.format.meta_columns import is_meta_column
from hudisql.format.spark_schema import quote_name
from hudisql.sql.change_rows import commit_changes, commit_load
from hudisql.sql.insert_rows import RowsToLoad, as_inserts
from hudisql.sql.statements import TableName
from hudisql.sql.store_assignment import with_types
from hudisql.sql.tables import find_hudi_entry, open_hudi_entry
from hudisql.table.hudi_table import HudiTable
from hudisql.write.commit_files import WriteResult
from hudisql.write.overwrite import Overwrite
from hudisql.write.upsert import tag_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context

OPERATIONS: Final = (
    "upsert",
    "insert",
    "bulk_insert",
    "delete",
    "insert_overwrite",
    "insert_overwrite_table",
)

_LOADS: Final[Mapping[str, Overwrite | None]] = {
    "bulk_insert": None,
    "insert_overwrite": Overwrite("touched"),
    "insert_overwrite_table": Overwrite("table"),
}


def write_frame(
    context: Context, frame: DataFrame, name: str, operation: str, options: Mapping[str, str]
) -> WriteResult:
    """Write the rows as one commit and sync the metastore.

    `options` are `hoodie.*` settings for this write alone. Raises InvalidArgumentError, NoSuchTableError,
    WriteRefusedError and what `apply_changes` raises.
    """
    if operation not in OPERATIONS:
        raise InvalidArgumentError(
            f"there is no operation '{operation}'", hint=f"the operations are {', '.join(OPERATIONS)}"
        )
    entry = find_hudi_entry(context, TableName(context.qualify_table_name(name)))
    if entry is None:
        raise NoSuchTableError(
            f"there is no Hudi table {name} in the metastore",
            hint="CALL hive_sync(table => 'db.name', path => '…') registers one that exists",
        )
    table = open_hudi_entry(context, entry)
    rows = _rows_of_table(context, table, frame, entry.full_name, is_delete=operation == "delete")
    with _settings(context, options):
        if operation in _LOADS:
            return commit_load(context, entry, table, RowsToLoad(rows, _LOADS[operation]))
        if operation == "insert":
            changes = as_inserts(rows)
        else:
            changes = tag_rows(context.spark, table, rows, deletes=operation == "delete")
        return commit_changes(context, entry, table, changes, operation.upper())


def _rows_of_table(
    context: Context, table: HudiTable, frame: DataFrame, place: str, *, is_delete: bool
) -> DataFrame:
    from pyspark.sql import functions as sf

    given = {column.lower(): column for column in frame.columns if not is_meta_column(column)}
    unknown = sorted(set(given) - {name.lower() for name in table.schema.names})
    if unknown and not is_delete:
        raise WriteRefusedError(
            f"{place} has no column '{given[unknown[0]]}'",
            hint=f"drop it from the rows; the table's columns are {', '.join(table.schema.names)}",
        )
    needed = {field.split(".")[0].lower() for field in table.properties.record_key_fields}
    needed |= {column.name.lower() for column in table.partition_columns}
    missing = sorted(needed - set(given))
    if missing:
        raise WriteRefusedError(f"the rows for {place} lack the key or partition column '{missing[0]}'")
    columns = [
        (sf.col(quote_name(given[name.lower()])) if name.lower() in given else sf.lit(None)).alias(name)
        for name in table.schema.names
    ]
    return with_types(context, frame.select(*columns), table.schema, place)


@contextmanager
def _settings(context: Context, options: Mapping[str, str]) -> Iterator[None]:
    """The options as settings of the session, as long as the write runs."""
    conf = context.spark.conf
    before = {key: conf.get(key, None) for key in options}
    for key, value in options.items():
        conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            conf.unset(key) if old is None else conf.set(key, old)
