"""Metadata that a Hudi table inherits from its plain table: properties, owner, comments, grants.

Statistics are excluded: Hive answers `count(*)` and `max(…)` from those that are marked as accurate, and
nothing updates them when rows change (docs/adr/0013-names-change-by-two-renames.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hudisql.catalog.metastore_table import MetastoreTable

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient

# Statistics of Hive and Spark, properties of the plain files, and properties that the metastore maintains.
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
    """The table properties that describe the table rather than its files, including the comment."""
    return {
        key: value
        for key, value in source.parameters.items()
        if key.lower() not in _LEFT_BEHIND and not key.lower().startswith(_LEFT_PREFIXES)
    }


def carry_grants(metastore: MetastoreClient, source: MetastoreTable, target: MetastoreTable) -> int:
    """Copy the grants on table and columns that `source` has and `target` lacks; returns the number of all.

    Raises MetastoreError.
    """
    wanted = metastore.list_grants(source)
    existing = set(metastore.list_grants(target)) if wanted else set()
    missing = [grant for grant in wanted if grant not in existing]
    metastore.add_grants(target, missing)
    return len(missing)
