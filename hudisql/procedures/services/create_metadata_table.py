"""The procedure `create_metadata_table`, with the name and parameter of Hudi's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.options.table_call import TableCall, open_table_call
from hudisql.procedures.registry import NamedTableArguments, parameter, procedure

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.table.hudi_table import HudiTable
    from hudisql.table.metadata_table.index_definitions import IndexDefinition
    from hudisql.write.metadata_table.new_metadata_table import NewMetadataTable


@dataclass(frozen=True)
class CreateMetadataTableRow:
    """What was made: `indexes` as a comma list, the files that are listed, the records with statistics."""

    result: str
    indexes: str
    files: int
    statistics: int


@dataclass(frozen=True, kw_only=True)
class CreateMetadataTableArguments(NamedTableArguments):
    """Parameters of the procedure."""

    indexes: str = parameter(
        "",
        help="record_index for a record index of the whole table, or record_level_index for one of each"
        " partition; by default of the kind that the table has; the other indexes are always made and may"
        " be named: files alone leaves the record index out",
    )


@procedure("Makes the metadata table of a table, with the statistics of bootstrapped files.")
def create_metadata_table(
    context: Context, arguments: CreateMetadataTableArguments
) -> Iterable[CreateMetadataTableRow]:
    """One row. A metadata table that is there is replaced, with its secondary and expression indexes, and
    with its record index unless `indexes` names others.

    Raises NoSuchTableError, InvalidArgumentError for an unknown index, UnsupportedTableError for tables with
    register-only partitions, for a partitioned record index beside a secondary one or in version 6, and while
    another writer may be active, SourceChangedError, StorageError.
    """
    from hudisql.format.metadata_table.metadata_records import RECORD_INDEX, RECORD_LEVEL_INDEX
    from hudisql.format.timeline.timeline_layout import metadata_table_directory
    from hudisql.write.metadata_table.new_metadata_table import parse_indexes

    indexes = parse_indexes(arguments.indexes)
    call = open_table_call(context, arguments.table)
    with table_to_index(call) as table:
        indexes = indexes or _record_indexes_of(table)
        metadata_table = make_metadata_table(
            context,
            table,
            with_record_index=RECORD_INDEX in indexes,
            by_partition=RECORD_LEVEL_INDEX in indexes,
        )
    place = table.storage.hadoop_uri(metadata_table_directory(table.base_path))
    row = CreateMetadataTableRow(
        f"Created Metadata Table in {place}",
        ",".join(metadata_table.indexes),
        metadata_table.files,
        metadata_table.statistics,
    )
    return [row]


def _record_indexes_of(table: HudiTable) -> frozenset[str]:
    from hudisql.format.metadata_table.metadata_records import RECORD_INDEX, RECORD_LEVEL_INDEX
    from hudisql.table.metadata_table.kept_metadata_table import has_partitioned_records

    if RECORD_INDEX not in table.properties.metadata_partitions:
        return frozenset()
    return frozenset({RECORD_LEVEL_INDEX if has_partitioned_records(table) else RECORD_INDEX})


@contextmanager
def table_to_index(call: TableCall) -> Iterator[HudiTable]:
    """The table as it is now, under its lock and without failed writes.

    Raises UnsupportedTableError, WriteConflictError, TableLockedError, StorageError.
    """
    from hudisql.services.planned_run import prepare_to_plan
    from hudisql.table.properties.virtual_keys import refuse_virtual_keys
    from hudisql.write.transaction.writable_tables import check_writable

    check_writable(call.table, "UPSERT")
    refuse_virtual_keys(call.table, "make a metadata table or an index")
    concurrency = call.concurrency()
    with concurrency.hold():
        yield prepare_to_plan(call.table, concurrency)


def make_metadata_table(
    context: Context,
    table: HudiTable,
    *,
    with_record_index: bool,
    by_partition: bool = False,
    secondary: Sequence[IndexDefinition] = (),
    expressions: Sequence[IndexDefinition] = (),
) -> NewMetadataTable:
    """Make the metadata table by Spark's tasks if the table is large, with the secondary indexes and the
    expression indexes that it had.

    `secondary` and `expressions` are new ones. No secondary one is without a record index. Raises as
    `create_metadata_table`, and UnsupportedTableError if an index cannot be made.
    """
    from hudisql.write.metadata_table.expression_index_files import kept_expressions
    from hudisql.write.metadata_table.new_metadata_table import create_metadata_table as create
    from hudisql.write.metadata_table.secondary_index_files import kept_definitions

    definitions = [*kept_definitions(table), *secondary]
    made = create(
        table,
        with_record_index=with_record_index or bool(definitions),
        by_partition=by_partition,
        secondary=definitions,
        expressions=[*kept_expressions(table), *expressions],
        spark=lambda: context.spark,
        console=context.console,
    )
    if made.refusal is not None:
        raise made.refusal
    return made
