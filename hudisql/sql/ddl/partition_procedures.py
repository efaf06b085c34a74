"""`drop_partition` and `truncate_table`, with the parameters and columns of Hudi 1.2's procedures.

Follows `DropPartitionProcedure` and `TruncateTableProcedure`. They commit as ALTER TABLE … DROP PARTITION and
TRUNCATE TABLE do: Hudi's own `truncate_table` deletes the table's directory with its timeline instead, and
returns none of the rows that it declares.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.errors import InvalidArgumentError
from hudisql.options.table_call import find_entry
from hudisql.procedures.registry import NamedTableArguments, parameter, procedure

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, kw_only=True)
class DropPartitionArguments(NamedTableArguments):
    """The parameters of `drop_partition`."""

    partition: str = parameter(
        help="paths of partitions, such as dt=2024-03-01, separated by commas; * stands for any characters"
    )


@dataclass(frozen=True, kw_only=True)
class TruncateTableArguments(NamedTableArguments):
    """The parameters of `truncate_table`."""

    partitions: str | None = parameter(
        None, help="paths of partitions as in drop_partition; by default all rows are deleted"
    )


@dataclass(frozen=True)
class DropPartitionRow:
    """`Success`."""

    result: str


@dataclass(frozen=True)
class TruncateTableRow:
    """`SUCCESS`, and the time taken in milliseconds."""

    result: str
    time_cost: int


@procedure("Drops partitions of a table by their paths, in one commit.")
def drop_partition(context: Context, arguments: DropPartitionArguments) -> Iterable[DropPartitionRow]:
    """One row, also if no partition has one of the paths, of which a warning tells.

    Raises InvalidArgumentError without a path, NoSuchTableError, UnsupportedTableError, WriteConflictError;
    the table is then as before. SyncFailedError means that only the sync failed.
    """
    from hudisql.sql.ddl.alter_table import drop_partitions_of_paths

    entry = find_entry(context, arguments.table)
    paths = _paths(arguments.partition)
    if not paths:
        raise InvalidArgumentError(
            "drop_partition: partition names no partition",
            hint="partition => 'dt=2024-03-01'; CALL truncate_table deletes all rows",
        )
    drop_partitions_of_paths(context, entry, paths, "CALL drop_partition")
    return [DropPartitionRow("Success")]


@procedure("Deletes all rows of a table, or of partitions by their paths, in one commit.")
def truncate_table(context: Context, arguments: TruncateTableArguments) -> Iterable[TruncateTableRow]:
    """One row. Raises as `drop_partition` does."""
    from hudisql.sql.ddl.alter_table import drop_partitions_of_paths

    entry = find_entry(context, arguments.table)
    paths = _paths(arguments.partitions or "")
    if arguments.partitions and not paths:
        raise InvalidArgumentError(
            "truncate_table: partitions names no partition", hint="leave it out to delete all rows"
        )
    started = time.monotonic()
    drop_partitions_of_paths(context, entry, paths, "CALL truncate_table")
    return [TruncateTableRow("SUCCESS", round((time.monotonic() - started) * 1000))]


def _paths(text: str) -> tuple[str, ...]:
    return tuple(path.strip().strip("/") for path in text.split(",") if path.strip().strip("/"))
