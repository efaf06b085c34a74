"""Plans which file groups of a bootstrapped table to rewrite; changes nothing.

Follows the table of `type_safety`: if a source file stores a column in a way that some reader or writer is
incompatible with, its file group is compatible again once it has a base file. Reads the footers of the source
files that are still in use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.source.footers import FileFooter, read_footers
from hudisql.bootstrap.source.partition_columns import filter_partitions
from hudisql.bootstrap.source.source_files import PartitionColumn
from hudisql.bootstrap.type_safety import TYPE_INCOMPATIBILITIES
from hudisql.errors import SourceError, UnknownColumnError
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.paths.partition_path import render_partition_value
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, list_partitions

if TYPE_CHECKING:
    from hudisql.context import Context

ANY_STORAGE: Final = "bootstrapped"


@dataclass(frozen=True, slots=True)
class PlannedRewrite:
    """One file group to rewrite, the source file that it reads now, and why."""

    partition_path: str
    file_id: str
    source_file: ExternalFile
    reason: str


def plan_rewrite(
    context: Context,
    table: HudiTable,
    where: str | None,
    columns: Sequence[str],
    *,
    only_unsafe: bool,
) -> list[PlannedRewrite]:
    """The bootstrapped file groups to rewrite, in the partitions for which `where` holds.

    With `only_unsafe` those whose source file stores one of `columns` (by default any column) in a way that a
    rewrite fixes, else all. Raises InvalidArgumentError for unknown columns or a bad predicate, SourceError
    for a source file whose footer cannot be read, StorageError.
    """
    _check_columns(table, columns)
    slices = [
        (file_slice, file_slice.external_file)
        for file_slice in load_file_slices(table, partitions_where(context, table, where))
        if file_slice.external_file is not None
    ]
    if not only_unsafe:
        return [
            PlannedRewrite(file_slice.partition_path, file_slice.file_id, file, ANY_STORAGE)
            for file_slice, file in slices
        ]
    footers = read_footers(context.spark, table.storage, [file for _, file in slices], (), context.console)
    wanted = {name.lower() for name in columns}
    return [
        PlannedRewrite(file_slice.partition_path, file_slice.file_id, file, reason)
        for (file_slice, file), footer in zip(slices, footers, strict=True)
        if (reason := _reason(footer, wanted))
    ]


def partitions_where(
    context: Context, table: HudiTable, where: str | None, *, parameter: str = "where"
) -> list[TablePartition]:
    """The table's partitions for which the SQL predicate over the partition columns holds; all without one.

    `parameter` names it in errors. Raises InvalidArgumentError for a bad predicate, StorageError.
    """
    partitions = list_partitions(table)
    if where is None:
        return partitions
    columns = [
        PartitionColumn(partition_column.name, partition_column.type)
        for partition_column in table.partition_columns
    ]
    texts = [
        tuple(
            render_partition_value(value, column.type)
            for value, column in zip(partition.values, columns, strict=True)
        )
        for partition in partitions
    ]
    taken = filter_partitions(context.spark, where, columns, texts, parameter=parameter)
    return [partition for partition, is_taken in zip(partitions, taken, strict=True) if is_taken]


def _check_columns(table: HudiTable, columns: Sequence[str]) -> None:
    known = {name.lower() for name in table.schema.names}
    if unknown := [name for name in columns if name.lower() not in known]:
        raise UnknownColumnError(
            f"{table.base_path} has no column {unknown[0]}",
            hint=f"the columns are {', '.join(table.schema.names)}",
        )


def _reason(footer: FileFooter, columns: Collection[str]) -> str:
    """How the file stores columns unsafely; empty if it does not."""
    if footer.problem is not None:
        raise SourceError(f"{footer.path} {footer.problem}")
    return "; ".join(
        f"column {column.name}: {TYPE_INCOMPATIBILITIES[name].stored}"
        for column in footer.schema.columns
        if not columns or column.name.lower() in columns
        for name in sorted(column.incompatibilities)
        if TYPE_INCOMPATIBILITIES[name].is_unsafe and TYPE_INCOMPATIBILITIES[name].fixed_by_full_record
    )
