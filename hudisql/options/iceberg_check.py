"""Verifies a published table and its metastore entry, for `verify_iceberg` and `verify_bootstrap`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hudisql.catalog.iceberg_entry import find_iceberg_entry
from hudisql.catalog.table_entries import main_name
from hudisql.iceberg.iceberg_verification import IcebergLevel, IcebergVerification, verify_iceberg_table
from hudisql.iceberg.other_readers import IcebergReader
from hudisql.iceberg.publication_problem import ENTRY_WRONG, PublicationProblem
from hudisql.iceberg.row_comparison import ComparisonTask, SliceSums, compare_slices
from hudisql.spark.task_runner import run_on_files

if TYPE_CHECKING:
    from hudisql.catalog.metastore_table import MetastoreTable
    from hudisql.context import Context
    from hudisql.iceberg.file_check import PublishedSlice
    from hudisql.table.hudi_table import HudiTable


def check_iceberg(
    context: Context,
    table: HudiTable,
    entry: MetastoreTable | None,
    level: IcebergLevel,
    reader: IcebergReader = IcebergReader.AUTO,
) -> IcebergVerification:
    """Verify the published table; its Iceberg entry too if the table was given by its `entry`.

    Rows are compared in Spark tasks. Raises InvalidArgumentError if the table is not published,
    UnsupportedTableError, CorruptTableError, StorageError, MetastoreError.
    """

    def compare(task: ComparisonTask, slices: Sequence[PublishedSlice]) -> Sequence[SliceSums]:
        return run_on_files(
            context.spark,
            slices,
            partial(compare_slices, task),
            weight=lambda published_slice: published_slice.file_slice.length,
            console=context.console,
            label=f"Comparing {table.name}, file groups",
        )

    verified = verify_iceberg_table(table, level, reader, compare)
    if entry is None:
        return verified
    return verified.with_problems(_entry_problems(context, table, entry, verified.metadata_file))


def _entry_problems(
    context: Context, table: HudiTable, entry: MetastoreTable, metadata_file: str
) -> Iterator[PublicationProblem]:
    """An Iceberg entry that shows another metadata file than the newest."""
    name = main_name(context.metastore, table, entry.database, entry.name)
    found = find_iceberg_entry(context.metastore, table.storage, table.base_path, entry.database, name)
    if found is None:
        return
    shown = found.parameters.get("metadata_location")
    if shown != metadata_file:
        detail = f"the entry {found.full_name} shows {shown}, the newest metadata is {metadata_file}"
        yield PublicationProblem(ENTRY_WRONG, None, table.base_path, detail)
