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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from hudisql.config.config_key import ConfigKey, HudiConfig
from hudisql.config.hudi_config import (
    BUCKET_ENGINE,
    CONSISTENT_HASHING,
    INDEX_TYPE,
    MAX_BUCKETS,
    MAX_FILE_SIZE,
    MERGE_THRESHOLD,
    MIN_BUCKETS,
    SPLIT_THRESHOLD,
)
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
    StorageError,
    UnknownColumnError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.keys.hash_ring import HashRing, RingNode
from hudisql.format.paths.split_file_id import split_bucket_of
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.timeline.commit_metadata import CommitMetadata, new_commit_metadata
from hudisql.format.timeline.instant import CLUSTERING, DELTA_COMMIT, REPLACE_COMMIT, Instant
from hudisql.services.clustering.clustering_plan import (
    OPERATION_TYPE,
    ClusteringOptions,
    ClusteringPlan,
    Layout,
    PartitionFilter,
    RingLimits,
    choose_partitions,
    plan_clustering,
    read_clustering_plan,
)
from hudisql.services.clustering.ring_resizing import plan_resizing
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
from hudisql.storage import join
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import list_partitions, partitions_at
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.table.timeline.requested_plans import is_clustering
from hudisql.write.execution.cluster_slices import RingBucket, RowOrder, SliceGroup, cluster_slices
from hudisql.write.execution.commit_files import write_stat
from hudisql.write.execution.space_filling_curves import has_position
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.bucket_index import check_bucket_index_declared
from hudisql.write.index.hash_rings import HashRings, store_ring
from hudisql.write.index.record_index import HashBuckets, IndexKind, RecordIndex
from hudisql.write.transaction.commit import OpenCommit, publish_commit
from hudisql.write.transaction.pending_rollbacks import reopened_under_lock
from hudisql.write.transaction.writable_tables import check_writable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLAN_PACKAGE: Final = "org.apache.hudi.client.clustering.plan.strategy."
_RUN_PACKAGE: Final = "org.apache.hudi.client.clustering.run.strategy."
_UPDATE_PACKAGE: Final = "org.apache.hudi.client.clustering.update.strategy."
# Each plan strategy with its partition filter; None: the configured filter.
_STRATEGIES: Final[dict[str, PartitionFilter | None]] = {
    "SparkSizeBasedClusteringPlanStrategy": None,
    "SparkRecentDaysClusteringPlanStrategy": "RECENT_DAYS",
    "SparkSelectedPartitionsClusteringPlanStrategy": "SELECTED_PARTITIONS",
}
# Hudi's strategies for consistent hashing indexes, whose buckets every clustering resizes.
_OF_RINGS: Final[Mapping[ConfigKey[str], tuple[str, ...]]] = {
    CLUSTERING_PLAN_STRATEGY: ("SparkConsistentBucketClusteringPlanStrategy",),
    CLUSTERING_EXECUTION_STRATEGY: ("SparkConsistentBucketClusteringExecutionStrategy",),
    CLUSTERING_UPDATES: ("SparkConsistentBucketDuplicateUpdateStrategy",),
}


@dataclass(frozen=True, slots=True)
class ClusteringResult:
    """A completed clustering: how many file groups it replaced, and how many files it wrote."""

    replaced: int
    files: int


def clustering_options(config: HudiConfig) -> ClusteringOptions:
    """The options of Hudi's settings. Raises SettingsError."""
    is_bucket = config.get(INDEX_TYPE) == IndexKind.BUCKET
    is_of_rings = is_bucket and config.get(BUCKET_ENGINE) == CONSISTENT_HASHING
    of_rings = _OF_RINGS if is_of_rings else {}
    plans = [*_STRATEGIES, *of_rings.get(CLUSTERING_PLAN_STRATEGY, ())]
    strategy = config.get_class(CLUSTERING_PLAN_STRATEGY, _PLAN_PACKAGE, plans)
    for key, package in (
        (CLUSTERING_EXECUTION_STRATEGY, _RUN_PACKAGE),
        (CLUSTERING_UPDATES, _UPDATE_PACKAGE),
    ):
        config.get_class(key, package, (key.default, *of_rings.get(key, ())))
    return ClusteringOptions(
        small_file_limit=config.get(CLUSTERING_SMALL_FILE_LIMIT),
        target_file_bytes=_positive(config, CLUSTERING_TARGET_FILE_BYTES),
        max_group_bytes=config.get(CLUSTERING_MAX_GROUP_BYTES),
        max_groups=config.get(CLUSTERING_MAX_GROUPS),
        takes_single_files=config.get(CLUSTERING_SINGLE_GROUP),
        sort_columns=config.get(CLUSTERING_SORT_COLUMNS),
        layout=cast("Layout", config.get(LAYOUT_STRATEGY)),
        partition_filter=_STRATEGIES.get(strategy)
        or cast("PartitionFilter", config.get(CLUSTERING_PARTITION_FILTER)),
        selected=config.get(CLUSTERING_PARTITIONS) or None,
        pattern=config.get(CLUSTERING_PARTITION_PATTERN),
        first=config.get(CLUSTERING_FIRST_PARTITION),
        last=config.get(CLUSTERING_LAST_PARTITION),
        lookback=config.get(CLUSTERING_LOOKBACK),
        skip_latest=config.get(CLUSTERING_SKIP_LATEST),
        max_base_file_bytes=config.get(MAX_FILE_SIZE),
        ring_limits=RingLimits(
            min_buckets=config.get(MIN_BUCKETS),
            max_buckets=config.get(MAX_BUCKETS),
            split_bytes=int(config.get(MAX_FILE_SIZE) * config.get(SPLIT_THRESHOLD)),
            merge_bytes=int(config.get(MAX_FILE_SIZE) * config.get(MERGE_THRESHOLD)),
        ),
    )


def schedule_clustering(
    table: HudiTable, options: ClusteringOptions, write_options: WriteOptions
) -> Instant | None:
    """Put a clustering plan on the timeline; None if there is nothing to cluster.

    Buckets of a consistent hashing index are split and merged. Failed writes are rolled back first, and a
    metadata table is dropped. Raises InvalidArgumentError for sort columns that the table lacks or that
    cannot be sorted by, UnsupportedTableError (also for tables with a simple bucket index, whose file groups
    are fixed), WriteRefusedError, WriteConflictError, TableLockedError,
    StorageError.
    """
    check_writable(table, CLUSTERING)
    concurrency = write_options.concurrency
    buckets = write_options.index.buckets
    if buckets is not None and not buckets.is_consistent:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} has a bucket index: its file groups cannot be clustered"
        )
    if buckets is not None and options.sort_columns:
        raise InvalidArgumentError(
            f"a clustering of {table.base_path} splits and merges the buckets of its consistent hashing "
            "index, and does not sort their rows",
            hint=f"leave the order out ({CLUSTERING_SORT_COLUMNS})",
        )
    with concurrency.hold():
        table = prepare_to_plan(table, concurrency)
        _check_sort_columns(table, RowOrder(options.sort_columns, options.layout))
        partitions = {partition.path: partition for partition in list_partitions(table)}
        chosen = choose_partitions(sorted(partitions), options, now_on_timeline(table))
        slices = load_file_slices(table, [partitions[path] for path in chosen])
        if buckets is not None:
            plan = _plan_of_rings(table, slices, options.ring_limits, buckets)
        else:
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
    with reopened_under_lock(table, concurrency) as (table, _):
        planned, plan = _planned(table, instant_time)
        rings = _resized_rings(table, plan, instant_time, options.index)
        inflight, heartbeat = begin_run(table, planned, concurrency)
    try:
        table = at_planned_schema(table, instant_time)
        commit = OpenCommit(table, inflight, OPERATION_TYPE, False, concurrency, heartbeat)
        groups = _of_buckets(_groups_of(table, plan, instant_time), plan, rings, options.index, table.version)
        # A bucket is one file of any size.
        most = options.base_file_config.max_file_bytes if rings else target_file_bytes
        sized = replace(options, base_file_config=replace(options.base_file_config, max_file_bytes=most))
        order = RowOrder(plan.sort_columns, plan.layout)
        files = cluster_slices(spark, commit, groups, order, sized, first_attempt=first_attempt())

        def check(now: HudiTable) -> None:
            check_still_planned(now, inflight)
            if (
                _of_buckets(_groups_of(now, plan, instant_time), plan, rings, options.index, now.version)
                != groups
            ):
                raise _changed(now, instant_time)

        for ring in rings.values():
            store_ring(table, ring)
        publish_commit(commit, _metadata(commit, plan, files), check)
        _mark(table, rings)
    except BaseException:
        give_up_run(table, inflight, heartbeat)
        raise
    replaced = sum(len(group.slices) for group in plan.groups)
    return ClusteringResult(replaced, len(files))


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


def _plan_of_rings(
    table: HudiTable, slices: Sequence[FileSlice], limits: RingLimits, buckets: HashBuckets
) -> ClusteringPlan:
    """The resizing of the table's rings; without groups while another writer writes, as in Hudi."""
    if any(instant.action == DELTA_COMMIT for instant in table.timeline.pending):
        return ClusteringPlan(())
    bounds = replace(
        limits,
        min_buckets=limits.min_buckets or buckets.count,
        max_buckets=limits.max_buckets or buckets.count,
    )
    rings = HashRings(table, buckets.count)
    return plan_resizing(table.storage, slices, pending_file_groups(table), rings, bounds)


def _resized_rings(
    table: HudiTable, plan: ClusteringPlan, instant_time: str, index: RecordIndex
) -> dict[str, HashRing]:
    """The new ring of each partition; empty for a clustering that does not resize buckets."""
    if not plan.resizes_buckets:
        return {}
    if index.buckets is None or not index.has_rings:
        raise UnsupportedTableError(
            f"the clustering {instant_time} of {table.base_path} resizes the buckets of a consistent hashing "
            "index, and none is configured",
            hint="SET hoodie.index.type = BUCKET and hoodie.index.bucket.engine = CONSISTENT_HASHING",
        )
    rings = HashRings(table, index.buckets.count)
    resized = {}
    for path in plan.partitions:
        groups = [group for group in plan.groups if group.partition_path == path]
        ring = rings.of(path)
        _check_not_written(table, path, [node for group in groups for node in group.nodes], instant_time)
        if any(not group.nodes or group.ring_number != ring.number for group in groups):
            raise _changed(table, instant_time)
        resized[path] = ring.resized(instant_time, [node for group in groups for node in group.nodes])
    return resized


def _check_not_written(table: HudiTable, path: str, nodes: Sequence[RingNode], instant_time: str) -> None:
    """Raise UnsupportedTableError if Hudi's writers have appended rows to the new buckets meanwhile.

    Hudi numbers these log files all alike, and does not keep the order of their rows.
    """
    prefixes = tuple(f".{node.file_id_prefix}-" for node in nodes if node.file_id_prefix)
    names = table.storage.list_file_names(join(table.base_path, path))
    if any(name.startswith(prefixes) for name in names):
        raise UnsupportedTableError(
            f"another writer has written to the buckets of partition '{path}' of {table.base_path} that the "
            f"clustering {instant_time} is going to make",
            hint="let Apache Hudi run it: an upsert with hoodie.clustering.inline=true",
        )


def _mark(table: HudiTable, rings: Mapping[str, HashRing]) -> None:
    """Let the rings be known as those of a completed resizing; else the next writer does so."""
    if rings:
        with suppress(StorageError):
            now = HashRings(table.reopened(), 1)
            for path in rings:
                now.of(path)


def _of_buckets(
    groups: list[SliceGroup],
    plan: ClusteringPlan,
    rings: Mapping[str, HashRing],
    index: RecordIndex,
    version: int,
) -> list[SliceGroup]:
    """The groups; of a resizing one for each new bucket, which takes its own rows of the slices."""
    if not rings:
        return groups
    assert index.buckets is not None  # `_resized_rings` has checked it
    return [
        replace(group, output_files=1, bucket=RingBucket(ring, number, index.buckets.fields, version))
        for group, planned in zip(groups, plan.groups, strict=True)
        for ring in [rings[group.partition_path]]
        for number in (ring.values.index(node.value) for node in planned.nodes if node.file_id_prefix)
    ]


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
