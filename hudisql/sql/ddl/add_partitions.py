"""ALTER TABLE … ADD PARTITION: a directory marked as a partition, and its entry in the metastore.

Follows `AlterHoodieTableAddPartitionCommand` of Hudi 0.15. No commit is made: a partition without rows is
nothing that a commit could name.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hudisql.catalog import added_partitions
from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import InvalidArgumentError, UnsupportedStatementError
from hudisql.format.paths.partition_metadata import (
    PARTITION_METADATA_FILE,
    PartitionMetadata,
    render_partition_metadata,
)
from hudisql.format.timeline.instant import new_instant_time
from hudisql.sql.ddl.partition_clauses import partition_values
from hudisql.sql.query.target_table import entries_of_table
from hudisql.sql.schema.alterations import AddPartitions
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition
from hudisql.table.partitions.non_empty_partitions import choose_non_empty
from hudisql.table.partitions.table_directories import list_table_directories
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.write.keygen.key_generator import generates_paths
from hudisql.write.keygen.partition_paths import PartitionPaths

if TYPE_CHECKING:
    from hudisql.context import Context


def add_partitions(
    context: Context, entry: MetastoreTable, table: HudiTable, addition: AddPartitions
) -> None:
    """Mark the directories of the partitions, and add them to the metastore.

    Raises InvalidArgumentError for partitions that exist (unless IF NOT EXISTS is given), for columns that
    are not those of the table's partitions and for values of another type, UnsupportedStatementError for
    tables whose directories a key generator names, WriteRefusedError for values that no directory can have;
    nothing is added then.
    """
    label = entry.full_name
    _check_partitioned(table, label)
    paths = PartitionPaths(table)
    values = [partition_values(table, specification, label) for specification in addition.specifications]
    partitions = [TablePartition(paths.path(value), value) for value in dict.fromkeys(values)]
    known = {partition.path for partition in choose_non_empty(table, partitions)}
    known |= added_partitions.added_among(context.metastore, table, entry, partitions)
    if known and not addition.if_not_exists:
        raise InvalidArgumentError(
            f"{label} has the partition {min(known)} already: nothing was added",
            hint="ADD IF NOT EXISTS PARTITION takes that",
        )
    new = [partition for partition in partitions if partition.path not in known]
    _mark(table, new)
    entries = [each for each in entries_of_table(context, entry) if each.partition_columns]
    added_partitions.add_partitions(context.metastore, table, entries, new)


def _check_partitioned(table: HudiTable, label: str) -> None:
    if generates_paths(table):
        raise UnsupportedStatementError(
            f"ADD PARTITION is not supported on {label}, whose key generator names the directories: nothing "
            "was run",
            hint="the first row of a partition makes it",
        )
    if not table.partition_columns:
        raise InvalidArgumentError(f"{label} is not partitioned: it takes no ADD PARTITION")


def _mark(table: HudiTable, partitions: list[TablePartition]) -> None:
    instant_time = new_instant_time(table.timeline.latest_time, now_on_timeline(table))
    paths = [partition.path for partition in partitions]
    for path, directory in zip(paths, list_table_directories(table.listed_once(), paths), strict=True):
        # A dropped partition has its mark until it is cleaned.
        if not directory.is_partition:
            content = render_partition_metadata(
                PartitionMetadata(instant_time, path.count("/") + 1), datetime.now(UTC)
            )
            table.storage.write(join(table.base_path, path, PARTITION_METADATA_FILE), content)
