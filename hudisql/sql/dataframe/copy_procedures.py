"""`copy_to_table` and `copy_to_temp_view`, with the parameters and columns of Hudi's procedures.

Follows `CopyToTableProcedure` and `CopyToTempViewProcedure` of Hudi 0.15 and 1.2; `columns` is a parameter of
1.2. The rows are those of the moment of the call, with the meta columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from hudisql.procedures.binder import parse_choice
from hudisql.procedures.registry import Arguments, parameter, procedure

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.sql.dataframe.table_copies import CopiedState


@dataclass(frozen=True, kw_only=True)
class CopyToTableArguments(Arguments):
    """The parameters of `copy_to_table`."""

    table: str = parameter(help="the Hudi table that is copied, database.name")
    query_type: str = parameter("snapshot", help="snapshot, read_optimized or incremental")
    new_table: str = parameter(
        help="the table that gets the rows, of Spark's default format if it is missing"
    )
    begin_instance_time: str = parameter("", help="incremental: commits after this instant time")
    end_instance_time: str = parameter("", help="incremental: commits up to and with this instant time")
    as_of_instant: str = parameter("", help="snapshot: the state at this instant time or point in time")
    save_mode: str = parameter(
        "overwrite", help="overwrite (makes new_table again) or append, if it is there"
    )
    columns: str = parameter(
        "", help="columns or expressions of a table that is missing, separated by commas; by default all"
    )


@dataclass(frozen=True, kw_only=True)
class CopyToTempViewArguments(Arguments):
    """The parameters of `copy_to_temp_view`."""

    table: str = parameter(help="the Hudi table that is read, database.name")
    query_type: str = parameter("snapshot", help="snapshot, read_optimized or incremental")
    view_name: str = parameter(help="the temporary view")
    begin_instance_time: str = parameter("", help="incremental: commits after this instant time")
    end_instance_time: str = parameter("", help="incremental: commits up to and with this instant time")
    as_of_instant: str = parameter("", help="snapshot: the state at this instant time or point in time")
    replace: bool = parameter(False, help="replace a temporary view of that name")
    global_: bool = parameter(False, help="a view of all sessions, global_temp.<view_name>")


@dataclass(frozen=True)
class CopyRow:
    """Always 0, as in Hudi."""

    status: Annotated[int, "int"]


@procedure("Copies the rows of a Hudi table, of a past state or of its changes, to a plain table.")
def copy_to_table(context: Context, arguments: CopyToTableArguments) -> Iterable[CopyRow]:
    """One row. The columns of a table that is there are looked up by name.

    Raises InvalidArgumentError, NoSuchTableError, NoSuchStateError, UnsupportedStatementError for a target
    that is a Hudi table or a view, QueryError.
    """
    from hudisql.sql.dataframe.table_copies import SaveMode, copied_rows, open_target, write_copy

    mode = parse_choice(SaveMode, "save_mode", arguments.save_mode)
    target = open_target(context, arguments.new_table)
    write_copy(context, copied_rows(context, _copied(arguments)), target, mode, arguments.columns)
    return [CopyRow(0)]


@procedure("Makes a temporary view of the rows of a Hudi table, of a past state or of its changes.")
def copy_to_temp_view(context: Context, arguments: CopyToTempViewArguments) -> Iterable[CopyRow]:
    """One row. Raises as `copy_to_table` does, and QueryError for a view that is there."""
    from hudisql.sql.dataframe.table_copies import copied_rows

    frame = copied_rows(context, _copied(arguments))
    if arguments.global_:
        create = frame.createOrReplaceGlobalTempView if arguments.replace else frame.createGlobalTempView
    else:
        create = frame.createOrReplaceTempView if arguments.replace else frame.createTempView
    create(arguments.view_name)
    return [CopyRow(0)]


def _copied(arguments: CopyToTableArguments | CopyToTempViewArguments) -> CopiedState:
    from hudisql.sql.dataframe.table_copies import CopiedState, QueryType

    return CopiedState(
        arguments.table,
        parse_choice(QueryType, "query_type", arguments.query_type),
        arguments.begin_instance_time,
        arguments.end_instance_time,
        arguments.as_of_instant,
    )
