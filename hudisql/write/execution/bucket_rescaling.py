"""Move the rows of partitions into other numbers of buckets, by one commit with the rules that say so.

Follows `PartitionBucketIndexManager` of Hudi 1.2: an INSERT_OVERWRITE of the partitions whose number of
buckets changes, whose rules are stored before it completes. Until then they do not count; a rollback deletes
them first. Knows neither SQL text nor the metastore.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hudisql.errors import UnsupportedTableError, WriteConflictError
from hudisql.format.keys.bucket_rules import BucketRules
from hudisql.format.paths.file_names import FileGroup
from hudisql.format.schema.spark_schema import quote_name
from hudisql.read.scan.record_skipping import LookedUpGroups
from hudisql.read.scan.scan_dataframe import scan_to_dataframe
from hudisql.read.scan.scan_plan import ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import partitions_at
from hudisql.table.partitions.registered_partitions import refuse_any_registered
from hudisql.write.execution.bulk_insert import write_new_rows
from hudisql.write.execution.commit_files import WriteResult, commit_files
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.partition_buckets import store_bucket_rules
from hudisql.write.overwrite import Overwrite
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.pending_table_services import has_pending_service

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPERATION_TYPE: Final = "INSERT_OVERWRITE"


def rescale_buckets(
    spark: SparkSession, table: HudiTable, rules: BucketRules, paths: Collection[str], options: WriteOptions
) -> WriteResult:
    """Rewrite the partitions at `paths` with the numbers of buckets of `rules`, which the table then stores.

    The other partitions must have their numbers already. Rows get a new commit time, as in Hudi. Any commit
    of another writer meanwhile is a conflict. Raises UnsupportedTableError while a compaction or clustering
    of the partitions is planned and for register-only partitions, WriteConflictError, StorageError, and
    Spark's own exceptions; the table is then as before.
    """
    refuse_any_registered(table)
    buckets = options.index.buckets
    assert buckets is not None
    assert not buckets.is_consistent
    index = replace(options.index, buckets=replace(buckets, count=rules.default, rules=rules))
    # A writer that went by the old numbers may have put new keys into any bucket.
    alone = replace(options.concurrency, optimistic=False)
    options = replace(options, index=index, concurrency=alone)
    groups = _file_groups(table, paths)
    _refuse_pending_services(table, groups)
    by_path: dict[str, list[str]] = {}
    for path, file_id in sorted(groups):
        by_path.setdefault(path, []).append(file_id)

    def write(commit: OpenCommit) -> list[WrittenFile]:
        _refuse_pending_services(commit.table, groups)
        rows = _rows_of(spark, commit.table, groups)
        files = write_new_rows(spark, commit, rows, options, commit.table.schema) if groups else []
        _check_paths(table, files, paths)
        if all(pending.timestamp != commit.instant_time for pending in table.reopened().timeline.pending):
            raise WriteConflictError(
                f"another writer has rolled back the change of {table.base_path} to other numbers of buckets",
                hint="call this again",
            )
        stored = replace(rules, instant_time=commit.instant_time)
        store_bucket_rules(commit.table.storage, commit.table.base_path, stored)
        return files

    overwrite = Overwrite("groups", groups={path: tuple(file_ids) for path, file_ids in by_path.items()})
    return commit_files(
        table,
        OPERATION_TYPE,
        table.schema,
        write,
        overwrite,
        concurrency=options.concurrency,
        changed=groups,
    )


def _file_groups(table: HudiTable, paths: Collection[str]) -> frozenset[FileGroup]:
    slices = load_file_slices(table, partitions_at(table, paths))
    return frozenset(file_slice.file_group for file_slice in slices)


def _rows_of(spark: SparkSession, table: HudiTable, groups: frozenset[FileGroup]) -> DataFrame:
    """The rows of the file groups, log files merged, without meta columns."""
    request = ScanRequest(
        table,
        table.schema,
        looked_up=LookedUpGroups(only=groups),
        parallelism=spark.sparkContext.defaultParallelism,
    )
    rows = scan_to_dataframe(spark, plan_scan(request))
    return rows.select(*(quote_name(name) for name in table.schema.names))


def _refuse_pending_services(table: HudiTable, groups: Collection[FileGroup]) -> None:
    if has_pending_service(table, groups):
        raise UnsupportedTableError(
            f"a compaction or clustering of {table.base_path} is planned for partitions that get another "
            "number of buckets, and would bring their old file groups back: nothing was written",
            hint="run it first (CALL run_compaction, CALL run_clustering), then call this again",
        )


def _check_paths(table: HudiTable, files: Collection[WrittenFile], paths: Collection[str]) -> None:
    """Raise WriteConflictError if a row came to another partition than it was read from."""
    others = sorted({file.partition_path for file in files} - set(paths))
    if others:
        raise WriteConflictError(
            f"rows of {table.base_path} lie in partitions that their columns do not name: of {others[0]}, "
            "which gets no other number of buckets; nothing was written",
            hint="UPDATE their partition columns to the values of their partitions",
        )
