"""The procedures behind CREATE, DROP and REFRESH INDEX, which Apache Hudi has as statements alone.

Follows `CreateIndexCommand` and `DropIndexCommand` of Hudi 1.2, and IF NOT EXISTS, which Hudi ignores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.errors import InvalidArgumentError, UnsupportedStatementError
from hudisql.options.table_call import open_table_call
from hudisql.procedures.registry import NamedTableArguments, parameter, procedure
from hudisql.procedures.services.create_metadata_table import make_metadata_table, table_to_index

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.table.hudi_table import HudiTable


@dataclass(frozen=True)
class IndexActionRow:
    """What was done."""

    result: str


@dataclass(frozen=True, kw_only=True)
class IndexArguments(NamedTableArguments):
    """The index of a table."""

    index: str = parameter(help="name of the index")


@dataclass(frozen=True, kw_only=True)
class CreateIndexArguments(IndexArguments):
    """Parameters of `create_index`."""

    indexed_columns: tuple[str, ...] = parameter(
        help="all record key columns for the record index, or another column for other indexes"
    )
    expression: Mapping[str, str] | None = parameter(
        None, help="expr and the other options of an expression index of the column"
    )
    if_not_exists: bool = parameter(False, help="leave an index of this name as it is")
    is_partitioned: bool = parameter(False, help="a record index of each partition, not of the whole table")


@dataclass(frozen=True, kw_only=True)
class DropIndexArguments(IndexArguments):
    """Parameters of `drop_index`."""

    if_exists: bool = parameter(False, help="do nothing without an index of this name")


@procedure("Makes a record, secondary or expression index, as CREATE INDEX index ON table (columns) does.")
def create_index(context: Context, arguments: CreateIndexArguments) -> Iterable[IndexActionRow]:
    """One row. The metadata table, with the statistics of the columns and the record index, is made with it;
    for an expression index the record index only if there is one.

    Raises NoSuchTableError, InvalidArgumentError for columns of which there is no index and for an index that
    exists or has a name of Hudi's own, UnsupportedStatementError where an index of another kind would be
    dropped and beside a partitioned record index, UnsupportedTableError
    for tables with register-only partitions, for keys that several rows have, and while another writer may be
    active, SourceChangedError, StorageError.
    """
    name = ".".join(context.qualify_table_name(arguments.table))
    with table_to_index(open_table_call(context, arguments.table)) as table:
        found = _find_index(table, arguments.index)
        if found is not None and arguments.if_not_exists:
            return [IndexActionRow(f"Index {found} of {name} exists")]
        _check_name(arguments)
        if found is not None:
            raise InvalidArgumentError(
                f"the Hudi table {name} has an index {found}",
                hint=f"DROP INDEX {arguments.index} ON {name} drops it",
            )
        column = _column_to_index(table, name, arguments)
        _check_record_index(table, name, arguments)
        others = _indexes_not_made_again(table)
        if others:
            raise UnsupportedStatementError(
                f"the metadata table of {name} has the index {others[0]}, which hudisql cannot make again "
                "with the new one",
                hint=f"create the index in Apache Hudi, or DROP INDEX {others[0]} ON {name}",
            )
        created = _make_index(context, table, column, arguments)
    return [IndexActionRow(f"Created index {created} of {name}")]


def _check_name(arguments: CreateIndexArguments) -> None:
    """Raises InvalidArgumentError for the names of the metadata table's own indexes."""
    from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
    from hudisql.table.metadata_table.kept_metadata_table import INDEXES

    index = arguments.index.lower()
    if index == RECORD_INDEX and arguments.expression is not None:
        raise InvalidArgumentError(
            f"the name {RECORD_INDEX} is that of the index of the record key, not of an expression index",
            hint="choose another name for the expression index",
        )
    if index in INDEXES and index != RECORD_INDEX:
        raise InvalidArgumentError(
            f"the name {arguments.index} is that of one of the metadata table's own indexes",
            hint="choose another name",
        )


def _check_record_index(table: HudiTable, name: str, arguments: CreateIndexArguments) -> None:
    """Raises UnsupportedStatementError if the table has a partitioned record index."""
    from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
    from hudisql.table.metadata_table.kept_metadata_table import has_partitioned_records

    if RECORD_INDEX in table.properties.metadata_partitions and has_partitioned_records(table):
        reason = (
            "a secondary index needs one of the whole table"
            if arguments.expression is None
            else "hudisql makes expression indexes only beside one of the whole table"
        )
        raise UnsupportedStatementError(
            f"the record index of {name} is partitioned, and {reason}",
            hint=f"CALL create_metadata_table(table => '{name}', indexes => '{RECORD_INDEX}') makes one of "
            "the whole table in its place; then run the statement again",
        )


def _indexes_not_made_again(table: HudiTable) -> list[str]:
    from hudisql.format.metadata_table.metadata_records import BLOOM_FILTERS
    from hudisql.table.metadata_table.expression_indexes import expression_indexes, is_expression
    from hudisql.table.metadata_table.kept_metadata_table import is_kept_kind

    indexes = table.properties.metadata_partitions
    others = {BLOOM_FILTERS, *filter(is_expression, indexes)} - {*expression_indexes(table)}
    return sorted(index for index in indexes if not is_kept_kind(index) or index in others)


def _make_index(
    context: Context, table: HudiTable, column: str | None, arguments: CreateIndexArguments
) -> str:
    """Make the index, of the record key without a column, and return its name in the metadata table."""
    from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
    from hudisql.write.metadata_table.expression_index_files import define_expression_index
    from hudisql.write.metadata_table.secondary_index_files import define_secondary_index

    if column is None:
        by_partition = arguments.is_partitioned
        make_metadata_table(context, table, with_record_index=not by_partition, by_partition=by_partition)
        return RECORD_INDEX
    if arguments.expression is None:
        secondary = define_secondary_index(table, arguments.index, column)
        make_metadata_table(context, table, with_record_index=True, secondary=[secondary])
        return secondary.name
    expression = define_expression_index(table, arguments.index, column, arguments.expression)
    with_records = RECORD_INDEX in table.properties.metadata_partitions
    make_metadata_table(context, table, with_record_index=with_records, expressions=[expression])
    context.console.warning(
        f"Apache Hudi 1.2 asks the index {arguments.index} for every filter by = or IN on the column "
        f"{column}, also for those without {expression.function}, and leaves out rows of them: set "
        "hoodie.enable.data.skipping=false where Hudi has such filters"
    )
    return expression.name


@procedure("Drops an index of the metadata table, as DROP INDEX does.")
def drop_index(context: Context, arguments: DropIndexArguments) -> Iterable[IndexActionRow]:
    """One row. With `column_stats` goes `partition_stats`, which Hudi makes of it, and with the record index
    secondary indexes, which need it. In a bootstrapped table `column_stats` goes with `partition_stats`, too:
    with the one alone Hudi 1.2 makes the other, of the skeletons.

    Raises NoSuchTableError, InvalidArgumentError for an unknown index, UnsupportedStatementError for the list
    of files, without which the others are not used, UnsupportedTableError while another writer may be active,
    CorruptTableError, StorageError.
    """
    from hudisql.format.metadata_table.metadata_records import (
        COLUMN_STATS,
        FILES,
        PARTITION_STATS,
        RECORD_INDEX,
    )
    from hudisql.table.metadata_table.secondary_indexes import is_secondary
    from hudisql.table.properties.table_configuration import check_nothing_begun, drop_indexes

    name = ".".join(context.qualify_table_name(arguments.table))
    with table_to_index(open_table_call(context, arguments.table)) as table:
        found = _find_index(table, arguments.index)
        if found is None and arguments.if_exists:
            return [IndexActionRow(f"There is no index {arguments.index} of {name}")]
        if found is None:
            raise _no_such_index(table, name, arguments)
        if found == FILES:
            raise UnsupportedStatementError(
                f"the index files of {name} cannot be dropped alone",
                hint=f"CALL delete_metadata_table(table => '{name}') drops it with all others",
            )
        check_nothing_begun(table, f"its index {found} cannot be dropped")
        indexes = table.properties.metadata_partitions
        others = set[str]()
        if found == COLUMN_STATS or (found == PARTITION_STATS and table.is_bootstrapped):
            others = {COLUMN_STATS, PARTITION_STATS} & {*indexes} - {found}
        if found == RECORD_INDEX:
            others = set(filter(is_secondary, indexes))
        drop_indexes(table, {found} | others)
    with_others = f", and with it {', '.join(sorted(others))}" if others else ""
    return [IndexActionRow(f"Dropped index {found} of {name}{with_others}")]


@procedure("Does nothing, as REFRESH INDEX: every change keeps the indexes of the metadata table up to date.")
def refresh_index(context: Context, arguments: IndexArguments) -> Iterable[IndexActionRow]:
    """One row. Raises NoSuchTableError, InvalidArgumentError for an unknown index, StorageError."""
    name = ".".join(context.qualify_table_name(arguments.table))
    table = open_table_call(context, arguments.table).table
    found = _find_index(table, arguments.index)
    if found is None:
        raise _no_such_index(table, name, arguments)
    return [IndexActionRow(f"Index {found} of {name} is kept up to date by every change")]


def _find_index(table: HudiTable, name: str) -> str | None:
    """The metadata table's partition of the index; None if there is none."""
    from hudisql.table.metadata_table.index_definitions import NAMED_PREFIXES

    wanted = name.lower()
    names = {wanted, *(f"{prefix}{wanted}" for prefix in NAMED_PREFIXES)}
    return next(
        (partition for partition in table.properties.metadata_partitions if partition.lower() in names), None
    )


def _no_such_index(table: HudiTable, name: str, arguments: IndexArguments) -> InvalidArgumentError:
    there = ", ".join(table.properties.metadata_partitions)
    return InvalidArgumentError(
        f"the Hudi table {name} has no index {arguments.index}",
        hint=f"it has {there}" if there else "it has no metadata table",
    )


def _column_to_index(table: HudiTable, name: str, arguments: CreateIndexArguments) -> str | None:
    """The column of a secondary index or an expression index; None for the record index."""
    from hudisql.format.metadata_table.metadata_records import RECORD_INDEX

    known: dict[str, str] = {field.name.lower(): field.name for field in table.schema}
    columns = {column.lower() for column in arguments.indexed_columns}
    listed = ", ".join(arguments.indexed_columns)
    unknown = [column for column in arguments.indexed_columns if column.lower() not in known]
    if unknown:
        raise InvalidArgumentError(f"the Hudi table {name} has no column {unknown[0]}")
    if arguments.is_partitioned and arguments.index.lower() != RECORD_INDEX:
        raise InvalidArgumentError(f"is_partitioned is for the index {RECORD_INDEX}, not {arguments.index}")
    if arguments.expression is not None:
        if len(columns) != 1:
            raise InvalidArgumentError(f"an expression index of {name} is of one column, not of ({listed})")
        column = known[columns.pop()]
        if column in table.properties.partition_fields:
            raise InvalidArgumentError(
                f"{column} is a partition column of {name}: no change would keep an expression index of it",
                hint="filters on partition columns choose directories, without an index",
            )
        return column
    record_key = ", ".join(table.properties.record_key_fields)
    keys = {column.lower() for column in table.properties.record_key_fields}
    if columns & keys and columns != keys:
        raise InvalidArgumentError(
            f"an index of {name} is of all its record key columns ({record_key}) or of none, not of "
            f"({listed})"
        )
    if columns != keys and len(columns) != 1:
        raise InvalidArgumentError(f"a secondary index of {name} is of one column, not of ({listed})")
    if columns == keys and arguments.index.lower() != RECORD_INDEX:
        raise InvalidArgumentError(
            f"the index of the record key is called {RECORD_INDEX}, not {arguments.index}"
        )
    if columns != keys and arguments.index.lower() == RECORD_INDEX:
        raise InvalidArgumentError(
            f"the index {RECORD_INDEX} of {name} is one of its record key ({record_key}), not of ({listed})"
        )
    return None if columns == keys else known[columns.pop()]
