"""Overwriting: which file groups a commit of new rows replaces.

Follows `SparkInsertOverwriteCommitActionExecutor` and `SparkInsertOverwriteTableCommitActionExecutor` of Hudi
0.15: new file groups are written and the old ones are named as replaced, so that readers switch over in one
step and no file is deleted, least of all a bootstrap's source. A DELETE of whole partitions follows
`SparkDeletePartitionCommitActionExecutor`: nothing replaces the file groups.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from hudisql.format.paths.partition_path import same_value
from hudisql.format.timeline.commit_metadata import DELETE_PARTITION
from hudisql.read.scan.partition_pruning import candidate_partitions, of_partitions
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import (
    TablePartition,
    list_partitions,
    partitions_at,
)
from hudisql.table.partitions.registered_partitions import registered_partitions, with_registered


@dataclass(frozen=True, slots=True)
class Overwrite:
    """The scope of an overwrite: the whole table, the partitions that get rows, those with given values, or
    given file groups.

    `values` (for "matching") are typed values by the names of partition columns, `groups` (for "groups") file
    ids by partition path.
    """

    scope: Literal["table", "touched", "matching", "groups"]
    values: Mapping[str, object] | None = None
    groups: Mapping[str, tuple[str, ...]] | None = None

    @property
    def operation_type(self) -> str:
        """Hudi's `WriteOperationType` of the commit."""
        if self.scope == "groups":
            return DELETE_PARTITION
        return "INSERT_OVERWRITE_TABLE" if self.scope == "table" else "INSERT_OVERWRITE"


def bulk_insert_operation_type(overwrite: Overwrite | None) -> str:
    """Hudi's `WriteOperationType` of a bulk insert that overwrites this, or (None) nothing."""
    return "BULK_INSERT" if overwrite is None else overwrite.operation_type


def replaced_file_ids(
    table: HudiTable, overwrite: Overwrite, touched: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """The file groups to replace, by partition path; `touched` are the partitions that get rows."""
    if overwrite.groups is not None:
        return dict(overwrite.groups)
    chosen = overwritten_partitions(table, overwrite, touched)
    found: dict[str, list[str]] = {partition.path: [] for partition in chosen}
    for file_slice in load_file_slices(table, chosen):
        found[file_slice.partition_path].append(file_slice.file_id)
    return {path: tuple(ids) for path, ids in found.items()}


def overwritten_partitions(
    table: HudiTable, overwrite: Overwrite, touched: Collection[str] = ()
) -> list[TablePartition]:
    """The partitions whose file groups are replaced."""
    if overwrite.scope == "table":
        return list_partitions(table)
    if overwrite.scope == "touched":
        return partitions_at(table, touched)
    given = overwrite.values
    if not given:
        return []
    candidates = candidate_partitions(table, of_partitions(list(given), [list(given.values())]))
    return [candidate for candidate in candidates if _is_overwritten(table, overwrite, candidate, touched)]


def overwritten_registered(table: HudiTable, overwrite: Overwrite, touched: Collection[str]) -> list[str]:
    """The register-only partitions (paths) whose rows are replaced."""
    partitions = with_registered(table, [], registered_partitions(table))
    return [
        partition.path for partition in partitions if _is_overwritten(table, overwrite, partition, touched)
    ]


def _is_overwritten(
    table: HudiTable, overwrite: Overwrite, partition: TablePartition, touched: Collection[str]
) -> bool:
    if overwrite.scope == "table":
        return True
    if overwrite.scope == "touched":
        return partition.path in touched
    if overwrite.scope == "groups":
        return False
    names = [column.name for column in table.partition_columns]
    values = dict(zip(names, partition.values, strict=True))
    return all(same_value(values[name], value) for name, value in (overwrite.values or {}).items())
