"""The procedure `delete_metadata_table`, with the name, parameter and column of Hudi's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.config.config_key import split_names
from hudisql.options.table_call import TableCall, open_table_call
from hudisql.procedures.registry import Arguments, parameter, procedure

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True)
class DeleteMetadataTableRow:
    """What was done."""

    result: str


@dataclass(frozen=True, kw_only=True)
class DeleteMetadataTableArguments(Arguments):
    """The parameter of the procedure."""

    table: str = parameter(help="tables of the metastore, database.name, separated by commas")


@procedure("Drops the metadata table of a table, or of several; readers then list directories.")
def delete_metadata_table(
    context: Context, arguments: DeleteMetadataTableArguments
) -> Iterable[DeleteMetadataTableRow]:
    """A row for each table, also for one without a metadata table. All are opened before one is changed.

    Raises NoSuchTableError, UnsupportedTableError while another writer may be active, StorageError.
    """
    names = split_names(arguments.table) or (arguments.table,)
    return [_delete(call) for call in [open_table_call(context, name) for name in names]]


def _delete(call: TableCall) -> DeleteMetadataTableRow:
    from hudisql.format.timeline.timeline_layout import metadata_table_directory
    from hudisql.table.properties.table_configuration import drop_metadata_table

    with call.concurrency().hold():
        is_dropped = drop_metadata_table(call.table.reopened())
    place = call.table.storage.hadoop_uri(metadata_table_directory(call.table.base_path))
    what = "Removed Metadata Table from" if is_dropped else "There is no Metadata Table at"
    return DeleteMetadataTableRow(f"{what} {place}")
