"""The procedure `delete_metadata_table`, with the name, parameter and column of Hudi's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.options.table_call import open_table_call
from hudisql.procedures.registry import NamedTableArguments, procedure

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True)
class DeleteMetadataTableRow:
    """What was done."""

    result: str


@procedure("Drops the metadata table of a table; readers then list directories.")
def delete_metadata_table(
    context: Context, arguments: NamedTableArguments
) -> Iterable[DeleteMetadataTableRow]:
    """One row, also for a table without one.

    Raises NoSuchTableError, UnsupportedTableError while another writer may be active, StorageError.
    """
    from hudisql.format.timeline.timeline_layout import metadata_table_directory
    from hudisql.table.properties.table_configuration import drop_metadata_table
    from hudisql.write.transaction.lock import hold_lock

    call = open_table_call(context, arguments.table)
    concurrency = call.concurrency()
    with hold_lock(concurrency.lock, concurrency.lock_retry_policy):
        is_dropped = drop_metadata_table(call.table.reopened())
    place = call.table.storage.hadoop_uri(metadata_table_directory(call.table.base_path))
    what = "Removed Metadata Table from" if is_dropped else "There is no Metadata Table at"
    return [DeleteMetadataTableRow(f"{what} {place}")]
