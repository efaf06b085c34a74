"""What a Hudi table takes over from the plain table whose name it gets.

Properties, owner, comments, grants, statistics. These plan queries, and answer none: Hive takes the result of
`count(*)` and `max(…)` from those that are marked as accurate, so the mark is left behind, for nobody updates
them when rows change (docs/adr/0013-names-change-by-two-renames.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hudisql.catalog.guarded_alter import alter_guarded
from hudisql.catalog.metastore_table import ACCURATE_STATISTICS, MetastorePartition, MetastoreTable

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient

# Counts of the plain files, which the Hudi table reads as well; without them a planner would take the size of
# the skeletons for that of the table.
_BASIC_STATISTICS: Final = ("numFiles", "numRows", "rawDataSize", "totalSize")
_SPARK_STATISTICS: Final = "spark.sql.statistics."
# Statistics, what describes the plain files, and what the metastore itself keeps.
_LEFT_BEHIND: Final = frozenset(
    {
        "column_stats_accurate",
        "numfiles",
        "numrows",
        "rawdatasize",
        "totalsize",
        "numpartitions",
        "numfileserasurecoded",
        "stats_generated",
        "stats_generated_via_stats_task",
        "do_not_update_stats",
        "external",
        "external.table.purge",
        "auto.purge",
        "discover.partitions",
        "partition.retention.period",
        "transient_lastddltime",
        "last_modified_by",
        "last_modified_time",
        "totals",
        "partition_level_privilege",
        "bucketing_version",
    }
)
_LEFT_PREFIXES: Final = (
    "spark.sql.",
    "hudisql_",
    "hudisql.",
    "hoodie.",
    "last_commit_",
    "parquet.",
    "impala.",
)


def carried_properties(source: MetastoreTable) -> dict[str, str]:
    """The table properties that describe the table and not its files, the comment among them."""
    return {
        key: value
        for key, value in source.parameters.items()
        if key.lower() not in _LEFT_BEHIND and not key.lower().startswith(_LEFT_PREFIXES)
    }


def carried_statistics(source: Mapping[str, str]) -> dict[str, str]:
    """The counts of rows, files and bytes among the parameters of a table or a partition, Spark's too."""
    counts = {key: source[key] for key in _BASIC_STATISTICS if source.get(key, "").isdigit()}
    return counts | {key: value for key, value in source.items() if key.startswith(_SPARK_STATISTICS)}


def partition_statistics(
    metastore: MetastoreClient, source: MetastoreTable
) -> dict[tuple[str, ...], dict[str, str]]:
    """`carried_statistics` of each partition by its values. Raises MetastoreError."""
    return {each.values: carried_statistics(each.parameters) for each in _partitions(metastore, source)}


def carry_column_statistics(
    metastore: MetastoreClient, source: MetastoreTable, target: MetastoreTable
) -> None:
    """Give `target` the column statistics of `source`, not marked as accurate, unless it has some.

    The metastore sets the mark with them; this takes it off, again by a second call. Raises MetastoreError.
    """
    types = {column.name: column.type for column in target.columns}
    if not metastore.list_column_statistics(target):
        found = metastore.list_column_statistics(source)
        fitting = [each for each in found if types.get(each.column) == each.type]
        metastore.set_column_statistics(target, fitting)
    entry = metastore.get_table(target.database, target.name)
    if entry is not None and ACCURATE_STATISTICS in entry.parameters:
        alter_guarded(metastore, entry, replace(entry, parameters=_unmarked(entry.parameters)))
    marked = [each for each in _partitions(metastore, target) if ACCURATE_STATISTICS in each.parameters]
    metastore.alter_partitions(
        target, [replace(each, parameters=_unmarked(each.parameters)) for each in marked]
    )


def carry_grants(metastore: MetastoreClient, source: MetastoreTable, target: MetastoreTable) -> int:
    """Give `target` the grants on table and columns that `source` has and it lacks; how many there were.

    Raises MetastoreError.
    """
    wanted = metastore.list_grants(source)
    existing = set(metastore.list_grants(target)) if wanted else set()
    missing = [grant for grant in wanted if grant not in existing]
    metastore.add_grants(target, missing)
    return len(missing)


def _partitions(metastore: MetastoreClient, table: MetastoreTable) -> list[MetastorePartition]:
    return metastore.list_partitions(table.database, table.name) if table.partition_columns else []


def _unmarked(parameters: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in parameters.items() if key != ACCURATE_STATISTICS}
