"""The procedure `create_metadata_table`, with the name and parameter of Hudi's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hudisql.options.table_call import open_table_call
from hudisql.procedures.registry import NamedTableArguments, procedure

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True)
class CreateMetadataTableRow:
    """What was made: `indexes` as a comma list, the files that are listed, the records with statistics."""

    result: str
    indexes: str
    files: int
    statistics: int


@procedure("Makes the metadata table of a table of version 9, with right statistics of bootstrapped files.")
def create_metadata_table(
    context: Context, arguments: NamedTableArguments
) -> Iterable[CreateMetadataTableRow]:
    """One row. A metadata table that is there is replaced.

    Raises NoSuchTableError, UnsupportedTableError for other versions and while another writer may be active,
    SourceChangedError, StorageError.
    """
    from hudisql.format.timeline.timeline_layout import metadata_table_directory
    from hudisql.write.metadata_table.measured_files import measure_in_tasks
    from hudisql.write.metadata_table.new_metadata_table import create_metadata_table as create
    from hudisql.write.transaction.commit import check_writable, roll_back_failed_writes
    from hudisql.write.transaction.lock import hold_lock

    call = open_table_call(context, arguments.table)
    check_writable(call.table, "UPSERT")
    concurrency = call.concurrency()
    measure = partial(measure_in_tasks, lambda: context.spark, console=context.console)
    with hold_lock(concurrency.lock, concurrency.lock_retry_policy):
        table = call.table.reopened()
        if roll_back_failed_writes(table, concurrency):
            table = table.reopened()
        metadata_table = create(table, measure)
    place = table.storage.hadoop_uri(metadata_table_directory(table.base_path))
    row = CreateMetadataTableRow(
        f"Created Metadata Table in {place}",
        ",".join(metadata_table.indexes),
        metadata_table.files,
        metadata_table.statistics,
    )
    return [row]
