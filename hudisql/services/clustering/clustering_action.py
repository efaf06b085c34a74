"""Clustering: rewrites small files of a partition as larger ones, sorted if columns are chosen.

Follows `ClusteringPlanActionExecutor`, `SparkExecuteClusteringCommitActionExecutor` and
`HoodieClusteringConfig` of Hudi 0.15: a plan on the timeline (`<t>.replacecommit.requested`), an inflight
instant while it runs, and a replacecommit of the operation CLUSTER that replaces the file groups by new ones.
With timeline layout 2 the plan has the action `clustering`, as in Hudi 1.2. Rows keep their meta columns.
Until it is complete no writer changes these file groups (Hudi's `SparkRejectUpdateStrategy`). A killed run
leaves its plan pending; the next run starts again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from hudisql.config.config_key import ConfigKey, HudiConfig
from hudisql.config.hudi_config import MAX_FILE_SIZE
from hudisql.config.table_service_keys import (
    CLUSTERING_EXECUTION_STRATEGY,
    CLUSTERING_FIRST_PARTITION,
    CLUSTERING_LAST_PARTITION,
    CLUSTERING_LOOKBACK,
    CLUSTERING_MAX_GROUP_BYTES,
    CLUSTERING_MAX_GROUPS,
    CLUSTERING_PARTITION_FILTER,
    CLUSTERING_PARTITION_PATTERN,
    CLUSTERING_PARTITIONS,
    CLUSTERING_PLAN_STRATEGY,
    CLUSTERING_SINGLE_GROUP,
    CLUSTERING_SKIP_LATEST,
    CLUSTERING_SMALL_FILE_LIMIT,
    CLUSTERING_SORT_COLUMNS,
    CLUSTERING_TARGET_FILE_BYTES,
    CLUSTERING_UPDATES,
    LAYOUT_STRATEGY,
)
from hudisql.errors import (
    InvalidArgumentError,
    SettingsError,
    UnknownColumnError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.paths.split_file_id import split_bucket_of
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.timeline.commit_metadata import CommitMetadata, new_commit_metadata
from hudisql.format.timeline.instant import CLUSTERING, REPLACE_COMMIT, Instant
from hudisql.services.clustering.clustering_plan import (
    OPERATION_TYPE,
    ClusteringOptions,
    ClusteringPlan,
    Layout,
    PartitionFilter,
    choose_partitions,
    plan_clustering,
    read_clustering_plan,
)
from hudisql.services.planned_run import (
    at_planned_schema,
    begin_run,
    check_still_planned,
    first_attempt,
    give_up_run,
    not_pending,
    pending_file_groups,
    prepare_to_plan,
    put_plan,
)
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import list_partitions, partitions_at
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.table.timeline.requested_plans import is_clustering
from hudisql.write.execution.cluster_slices import RowOrder, SliceGroup, cluster_slices
from hudisql.write.execution.commit_files import write_stat
from hudisql.write.execution.space_filling_curves import has_position
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.bucket_index import check_bucket_index_declared
from hudisql.write.transaction.commit import (
    OpenCommit,
    check_writable,
    publish_commit,
)
from hudisql.write.transaction.lock import hold_lock
from hudisql.write.transaction.pending_rollbacks import check_not_restored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLAN_PACKAGE: Final = "org.apache.hudi.client.clustering.plan.strategy."
_RUN_PACKAGE: Final = "org.apache.hudi.client.clustering.run.strategy."
_RESIZE: Final = (
    "resize buckets with Apache Hudi: an upsert with hoodie.clustering.inline=true and its strategies of "
    "consistent buckets"
)
_UPDATE_PACKAGE: Final = "org.apache.hudi.client.clustering.update.strategy."
# Each plan strategy with its partition filter; None: the configured filter.
_STRATEGIES: Final[dict[str, PartitionFilter | None]] = {
    "SparkSizeBasedClusteringPlanStrategy": None,
    "SparkRecentDaysClusteringPlanStrategy": "RECENT_DAYS",
    "SparkSelectedPartitionsClusteringPlanStrategy": "SELECTED_PARTITIONS",
}


@dataclass(frozen=True, slots=True)
class ClusteringResult:
    """A completed clustering: its instant time, the file groups it replaced, and the files it wrote."""

    instant_time: str
    replaced: int
    files: int
    bytes: int


def clustering_options(config: HudiConfig) -> ClusteringOptions:
    """The options of Hudi's settings. Raises SettingsError."""
    strategy = config.get_class(CLUSTERING_PLAN_STRATEGY, _PLAN_PACKAGE, _STRATEGIES)
    for key, package in (
        (CLUSTERING_EXECUTION_STRATEGY, _RUN_PACKAGE),
        (CLUSTERING_UPDATES, _UPDATE_PACKAGE),
    ):
        config.get_class(key, package, (key.default,))
    return ClusteringOptions(
        small_file_limit=config.get(CLUSTERING_SMALL_FILE_LIMIT),
        target_file_bytes=_positive(config, CLUSTERING_TARGET_FILE_BYTES),
        max_group_bytes=config.get(CLUSTERING_MAX_GROUP_BYTES),
        max_groups=config.get(CLUSTERING_MAX_GROUPS),
        takes_single_files=config.get(CLUSTERING_SINGLE_GROUP),
        sort_columns=config.get(CLUSTERING_SORT_COLUMNS),
        layout=cast("Layout", config.get(LAYOUT_STRATEGY)),
        partition_filter=_STRATEGIES[strategy]
        or cast("PartitionFilter", config.get(CLUSTERING_PARTITION_FILTER)),
        selected=config.get(CLUSTERING_PARTITIONS) or None,
        pattern=config.get(CLUSTERING_PARTITION_PATTERN),
        first=config.get(CLUSTERING_FIRST_PARTITION),
        last=config.get(CLUSTERING_LAST_PARTITION),
        lookback=config.get(CLUSTERING_LOOKBACK),
        skip_latest=config.get(CLUSTERING_SKIP_LATEST),
        max_base_file_bytes=config.get(MAX_FILE_SIZE),
    )


def schedule_clustering(
    table: HudiTable, options: ClusteringOptions, write_options: WriteOptions
) -> Instant | None:
    """Put a clustering plan on the timeline; None if there is nothing to cluster.

    Failed writes are rolled back first, and a metadata table is dropped. Raises InvalidArgumentError for sort
    columns that the table lacks or that cannot be sorted by, UnsupportedTableError (also for tables with a
    bucket index, whose file groups are fixed), WriteRefusedError, WriteConflictError, TableLockedError,
    StorageError.
    """
    check_writable(table, CLUSTERING)
    concurrency = write_options.concurrency
    if write_options.index.buckets is not None:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} has a bucket index: its file groups cannot be clustered",
            hint=_RESIZE if write_options.index.has_rings else None,
        )
    with hold_lock(concurrency.lock, concurrency.lock_retry_policy):
        table = prepare_to_plan(table, concurrency)
        _check_sort_columns(table, RowOrder(options.sort_columns, options.layout))
        partitions = {partition.path: partition for partition in list_partitions(table)}
        chosen = choose_partitions(sorted(partitions), options, now_on_timeline(table))
        slices = load_file_slices(table, [partitions[path] for path in chosen])
        check_bucket_index_declared(table, slices)
        # The hash buckets of an ingest worker are not clustered.
        slices = [file_slice for file_slice in slices if split_bucket_of(file_slice.file_id) is None]
        plan = plan_clustering(table.storage, slices, pending_file_groups(table), options)
        if not plan.groups:
            return None
        action = CLUSTERING if table.timeline.layout.has_completion_times else REPLACE_COMMIT
        return put_plan(table, action, plan.to_avro())


def run_clustering(
    spark: SparkSession,
    table: HudiTable,
    instant_time: str,
    options: WriteOptions,
    target_file_bytes: int = CLUSTERING_TARGET_FILE_BYTES.default_value,
) -> ClusteringResult:
    """Write the groups of a pending clustering into new file groups and commit them.

    Raises NoSuchInstantError if no such clustering is pending, WriteConflictError if another process runs
    it or has changed its file groups, UnsupportedTableError, SourceChangedError, CorruptTableError,
    StorageError, and Spark's own exceptions; the plan then stays pending.
    """
    check_writable(table, CLUSTERING)
    concurrency = options.concurrency
    with hold_lock(concurrency.lock, concurrency.lock_retry_policy):
        table = table.reopened()
        check_not_restored(table, table.timeline)
        planned, plan = _planned(table, instant_time)
        inflight, heartbeat = begin_run(table, planned, concurrency)
    try:
        table = at_planned_schema(table, instant_time)
        commit = OpenCommit(table, inflight, OPERATION_TYPE, False, concurrency, heartbeat)
        groups = _groups_of(table, plan, instant_time)
        sized = replace(
            options, base_file_config=replace(options.base_file_config, max_file_bytes=target_file_bytes)
        )
        order = RowOrder(plan.sort_columns, plan.layout)
        files = cluster_slices(spark, commit, groups, order, sized, first_attempt=first_attempt())

        def check(now: HudiTable) -> None:
            check_still_planned(now, inflight)
            if _groups_of(now, plan, instant_time) != groups:
                raise _changed(now, instant_time)

        publish_commit(commit, _metadata(commit, plan, files), check)
    except BaseException:
        give_up_run(table, inflight, heartbeat)
        raise
    replaced = sum(len(group.slices) for group in plan.groups)
    return ClusteringResult(instant_time, replaced, len(files), sum(file.bytes for file in files))


def pending_clusterings(table: HudiTable) -> list[str]:
    """The instant times of the pending clusterings, oldest first. Raises CorruptTableError, StorageError."""
    return [instant.timestamp for instant in table.timeline.pending if is_clustering(table, instant)]


def commits_since_clustering(table: HudiTable) -> int:
    """The number of completed commits after the last clustering, pending or completed.

    Raises CorruptTableError, StorageError.
    """
    clusterings = [
        instant.timestamp
        for instant in table.timeline.instants
        if instant.completed_action == REPLACE_COMMIT
        and read_clustering_plan(table, instant.timestamp) is not None
    ]
    last = clusterings[-1] if clusterings else ""
    return sum(commit.timestamp > last for commit in table.timeline.commits)


def _positive(config: HudiConfig, key: ConfigKey[Any]) -> int:
    value = int(config.get(key))
    if value < 1:
        raise SettingsError(f"{key} must be at least 1, not {value}")
    return value


def _check_sort_columns(table: HudiTable, order: RowOrder) -> None:
    """Raise InvalidArgumentError for columns that the table lacks, or whose values cannot be sorted."""
    types = {field.name: field.type for field in table.schema}
    for name in order.columns:
        if name not in types:
            raise UnknownColumnError(
                f"the Hudi table at {table.base_path} has no column '{name}' to sort by",
                hint=f"it has {', '.join(types)}",
            )
        if has_position(types[name]) if order.is_curve else not _has_maps(types[name]):
            continue
        sorts = f"{order.layout} curve" if order.is_curve else "linear order"
        raise InvalidArgumentError(
            f"the column '{name}' of type {types[name]} of the Hudi table at {table.base_path} cannot be "
            f"sorted in a {sorts}",
            hint="choose columns of numbers, texts, dates or timestamps",
        )


def _has_maps(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(
        _has_maps(kind.field(number).type) for number in range(kind.num_fields)
    )


def _planned(table: HudiTable, instant_time: str) -> tuple[Instant, ClusteringPlan]:
    for instant in table.timeline.pending:
        if instant.timestamp == instant_time and instant.completed_action == REPLACE_COMMIT:
            plan = read_clustering_plan(table, instant_time)
            if plan is not None and plan.resizes_buckets:
                raise UnsupportedTableError(
                    f"the clustering {instant_time} of {table.base_path} resizes the buckets of its "
                    "consistent hashing index, which hudisql does not do",
                    hint=_RESIZE,
                )
            if plan is not None:
                return instant, plan
    raise not_pending(table, "clustering", instant_time)


def _groups_of(table: HudiTable, plan: ClusteringPlan, instant_time: str) -> list[SliceGroup]:
    """The plan's slices in their current state."""
    paths = set(plan.partitions)
    partitions = partitions_at(table, paths)
    # Not the listing of a statement: others may have written since.
    file_slices = load_file_slices(replace(table, listing=None), partitions)
    slices = {file_slice.file_group: file_slice for file_slice in file_slices}
    groups = []
    for group in plan.groups:
        chosen: list[FileSlice] = []
        for file_slice in group.slices:
            current = slices.get((file_slice.partition_path, file_slice.file_id))
            name = (file_slice.base_file or "").rpartition("/")[2]
            base = current.base_file.path.rpartition("/")[2] if current and current.base_file else ""
            if current is None or base != name:
                raise _changed(table, instant_time)
            chosen.append(replace(current, columns=table.file_columns))
        groups.append(SliceGroup(group.partition_path, tuple(chosen), group.output_files))
    return groups


def _changed(table: HudiTable, instant_time: str) -> WriteConflictError:
    return WriteConflictError(
        f"another writer has changed file groups of the planned clustering {instant_time} of "
        f"{table.base_path}",
        hint="roll the plan back with Apache Hudi, or restore the table to a savepoint before it",
    )


def _metadata(commit: OpenCommit, plan: ClusteringPlan, files: Sequence[WrittenFile]) -> CommitMetadata:
    table = commit.table
    replaced: dict[str, list[str]] = defaultdict(list)
    for group in plan.groups:
        replaced[group.partition_path] += [file_slice.file_id for file_slice in group.slices]
    ordered = sorted(files, key=lambda file: (file.partition_path, file.file_id))
    return new_commit_metadata(
        [write_stat(table.base_path, written_file) for written_file in ordered],
        avro_from_arrow(table.in_files(table.schema), table.name),
        OPERATION_TYPE,
        {partition: tuple(file_ids) for partition, file_ids in replaced.items()},
    )
