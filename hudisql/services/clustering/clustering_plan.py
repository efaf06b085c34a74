"""Clustering plans: groups of file slices that are written together, and the sort order of their rows.

Follows `HoodieClusteringPlan`, `PartitionAwareClusteringPlanStrategy`, `SparkSizeBasedClusteringPlanStrategy`
and `ClusteringPlanPartitionFilter` of Hudi 0.15. Values and bytes; knows neither Spark nor settings.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, cast

from hudisql.config.config_key import split_names
from hudisql.config.table_service_keys import (
    CLUSTERING_LOOKBACK,
    CLUSTERING_MAX_GROUP_BYTES,
    CLUSTERING_MAX_GROUPS,
    CLUSTERING_SINGLE_GROUP,
    CLUSTERING_SKIP_LATEST,
    CLUSTERING_SMALL_FILE_LIMIT,
    CLUSTERING_SORT_COLUMNS,
    CLUSTERING_TARGET_FILE_BYTES,
    LAYOUT_STRATEGY,
)
from hudisql.errors import CorruptTableError, InvalidArgumentError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.keys.hash_ring import RingNode, nodes_from_json, nodes_to_json
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.requested_plans import read_requested_replace

PartitionFilter = Literal["NONE", "RECENT_DAYS", "SELECTED_PARTITIONS", "DAY_ROLLING"]
Layout = Literal["linear", "z-order", "hilbert"]

OPERATION_TYPE: Final = "CLUSTER"
EXECUTION_STRATEGY: Final = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
RESIZING_STRATEGY: Final = (
    "org.apache.hudi.client.clustering.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
)
_VERSION: Final = 1
# Keys of a group's extra metadata.
_PARTITION: Final = "clustering.group.partition"
_CHILD_NODES: Final = "clustering.group.child.node"
_SEQUENCE_NUMBER: Final = "clustering.group.sequence.no"
_MEGABYTE: Final = 1 << 20
_HOURS_A_DAY: Final = 24


@dataclass(frozen=True, slots=True)
class ClusteringSlice:
    """One file slice of a plan, its files as URIs; without `base_file` it consists of log files only."""

    partition_path: str
    file_id: str
    base_file: str | None
    log_files: tuple[str, ...]
    bootstrap_file: str | None


@dataclass(frozen=True, slots=True)
class ClusteringGroup:
    """The slices of one partition that are written together, into about `output_files` new file groups.

    Slices of buckets of a consistent hashing index go into those of `nodes`, which change the partition's
    ring of the number `ring_number`.
    """

    slices: tuple[ClusteringSlice, ...]
    output_files: int
    metrics: dict[str, float]
    nodes: tuple[RingNode, ...] = ()
    ring_number: int = 0

    @property
    def partition_path(self) -> str:
        """The partition of all its slices."""
        return self.slices[0].partition_path


@dataclass(frozen=True, slots=True)
class ClusteringPlan:
    """The groups of one clustering; its rows are sorted by `sort_columns`, in the order of `layout`."""

    groups: tuple[ClusteringGroup, ...]
    sort_columns: tuple[str, ...] = ()
    layout: Layout = "linear"

    @property
    def resizes_buckets(self) -> bool:
        """True if it splits and merges buckets of a consistent hashing index."""
        return any(group.nodes for group in self.groups)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partition paths, in the order of the groups."""
        return tuple(dict.fromkeys(group.partition_path for group in self.groups))

    def to_avro(self) -> bytes:
        """The content of `<t>.replacecommit.requested`."""
        parameters = {}
        if self.sort_columns:
            # Apache Hudi reads the first, and takes the second from its own settings.
            parameters = {
                CLUSTERING_SORT_COLUMNS.name: ",".join(self.sort_columns),
                LAYOUT_STRATEGY.name: self.layout,
            }
        plan = {
            "inputGroups": [_group_record(group) for group in self.groups],
            "strategy": {
                "strategyClassName": RESIZING_STRATEGY if self.resizes_buckets else EXECUTION_STRATEGY,
                "strategyParams": parameters,
                "version": _VERSION,
            },
            "extraMetadata": {},
            "version": _VERSION,
            "preserveHoodieMetadata": True,
        }
        record = {
            "operationType": OPERATION_TYPE,
            "clusteringPlan": plan,
            "extraMetadata": {},
            "version": _VERSION,
        }
        return load_codec("HoodieRequestedReplaceMetadata").encode(record)


@dataclass(frozen=True, slots=True)
class RingLimits:
    """When buckets of a consistent hashing index are split and merged, and the bounds of their number.

    Buckets of more than `split_bytes` are split; neighbours that have `merge_bytes` together are merged.
    """

    min_buckets: int = 1
    max_buckets: int = 1
    split_bytes: int = 0
    merge_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ClusteringOptions:
    """Which slices a plan includes and how their rows are sorted; the defaults are Hudi's.

    Sizes in bytes. `selected` are partition paths, None for all; `first` and `last` bound them in the mode
    SELECTED_PARTITIONS. `lookback` and `skip_latest` count partitions in the mode RECENT_DAYS. `ring_limits`
    are for consistent hashing indexes.
    """

    small_file_limit: int = CLUSTERING_SMALL_FILE_LIMIT.default_value
    target_file_bytes: int = CLUSTERING_TARGET_FILE_BYTES.default_value
    max_group_bytes: int = CLUSTERING_MAX_GROUP_BYTES.default_value
    max_groups: int = CLUSTERING_MAX_GROUPS.default_value
    takes_single_files: bool = CLUSTERING_SINGLE_GROUP.default_value
    sort_columns: tuple[str, ...] = ()
    layout: Layout = "linear"
    partition_filter: PartitionFilter = "NONE"
    selected: tuple[str, ...] | None = None
    pattern: str = ""
    first: str = ""
    last: str = ""
    lookback: int = CLUSTERING_LOOKBACK.default_value
    skip_latest: int = CLUSTERING_SKIP_LATEST.default_value
    max_base_file_bytes: int = field(default=120 * _MEGABYTE)
    ring_limits: RingLimits = RingLimits()


def choose_partitions(paths: Sequence[str], options: ClusteringOptions, now: datetime) -> list[str]:
    """The partitions of a plan, as `ClusteringPlanPartitionFilter` chooses them.

    Raises InvalidArgumentError for an invalid regular expression.
    """
    partitions = list(paths)
    if options.selected is not None:
        partitions = [partition for partition in partitions if partition in options.selected]
    elif options.pattern:
        try:
            pattern = re.compile(options.pattern)
        except re.error as error:
            raise InvalidArgumentError(
                f"'{options.pattern}' is not a regular expression of partition paths: {error}"
            ) from error
        partitions = [partition for partition in partitions if pattern.fullmatch(partition)]
    if options.partition_filter == "RECENT_DAYS":
        latest = sorted(partitions, reverse=True)[options.skip_latest :]
        return latest[: options.lookback] if options.lookback > 0 else latest
    if options.partition_filter == "SELECTED_PARTITIONS":
        return [
            partition
            for partition in partitions
            if partition >= options.first and (not options.last or partition <= options.last)
        ]
    if options.partition_filter == "DAY_ROLLING":
        return sorted(partitions)[now.hour :: _HOURS_A_DAY]
    return partitions


def plan_clustering(
    storage: Storage,
    slices: Collection[FileSlice],
    excluded: Collection[tuple[str, str]],
    options: ClusteringOptions,
) -> ClusteringPlan:
    """The groups of slices with small base files, partition by partition, up to the most groups.

    `excluded` file groups, as (partition path, file id), belong to another pending table service.
    """
    small = [
        file_slice
        for file_slice in slices
        if file_slice.file_group not in excluded
        and (file_slice.base_file.length if file_slice.base_file is not None else 0)
        < options.small_file_limit
    ]
    groups: list[ClusteringGroup] = []
    for path in sorted({file_slice.partition_path for file_slice in small}):
        of_partition = [file_slice for file_slice in small if file_slice.partition_path == path]
        groups += _groups_of_partition(storage, of_partition, options)
    return ClusteringPlan(tuple(groups[: options.max_groups]), options.sort_columns, options.layout)


def read_clustering_plan(table: HudiTable, instant_time: str) -> ClusteringPlan | None:
    """The plan of a replacecommit; None if it is not a clustering. Raises CorruptTableError, StorageError."""
    requested_replace = read_requested_replace(table, instant_time)
    return (
        parse_clustering_plan(*requested_replace)
        if requested_replace is not None and requested_replace[0]
        else None
    )


def parse_clustering_plan(content: bytes, path: str) -> ClusteringPlan | None:
    """A plan of hudisql or Apache Hudi; None if it is not a clustering. Raises CorruptTableError."""
    found = load_codec("HoodieRequestedReplaceMetadata").decode(content, path)
    plan = found.get("clusteringPlan")
    if found.get("operationType") != OPERATION_TYPE or plan is None:
        return None
    parameters = (plan.get("strategy") or {}).get("strategyParams") or {}
    columns = str(parameters.get(CLUSTERING_SORT_COLUMNS.name) or "")
    chosen = str(parameters.get(LAYOUT_STRATEGY.name) or LAYOUT_STRATEGY.default)
    layout = cast("Layout", LAYOUT_STRATEGY.parse(LAYOUT_STRATEGY.name, chosen))
    groups = tuple(_parse_group(group, path) for group in plan.get("inputGroups") or ())
    return ClusteringPlan(groups, split_names(columns), layout)


def _parse_group(found: dict[str, Any], path: str) -> ClusteringGroup:
    slices = tuple(
        ClusteringSlice(
            partition_path=str(record["partitionPath"] or ""),
            file_id=str(record["fileId"]),
            base_file=record["dataFilePath"] or None,
            log_files=tuple(record["deltaFilePaths"] or ()),
            bootstrap_file=record["bootstrapFilePath"] or None,
        )
        for record in found["slices"] or ()
    )
    if not slices or len({file_slice.partition_path for file_slice in slices}) > 1:
        raise CorruptTableError(f"{path} is a clustering plan with a group that is not of one partition")
    extra = found.get("extraMetadata") or {}
    return ClusteringGroup(
        slices,
        int(found["numOutputFileGroups"] or 1),
        dict(found["metrics"] or {}),
        nodes_from_json(extra.get(_CHILD_NODES) or "[]", path),
        int(extra.get(_SEQUENCE_NUMBER) or 0),
    )


def _groups_of_partition(
    storage: Storage, slices: Sequence[FileSlice], options: ClusteringOptions
) -> Iterator[ClusteringGroup]:
    """Groups of at most `max_group_bytes`, the largest files first."""
    sized = sorted(
        ((_base_bytes(file_slice, options), file_slice) for file_slice in slices),
        key=lambda file_slice: -file_slice[0],
    )
    group: list[FileSlice] = []
    total = 0
    for size, file_slice in sized:
        if group and total + size > options.max_group_bytes:
            yield _group(storage, group, total, options)
            group, total = [], 0
        group.append(file_slice)
        total += size
    if len(group) > 1 or (group and options.takes_single_files):
        yield _group(storage, group, total, options)


def _base_bytes(file_slice: FileSlice, options: ClusteringOptions) -> int:
    """The expected size of the slice's new base file; a skeleton's rows are in its external file."""
    base = file_slice.base_file.length if file_slice.base_file else options.max_base_file_bytes
    return base + (file_slice.external_file.length if file_slice.external_file else 0)


def _group(
    storage: Storage, slices: Sequence[FileSlice], total: int, options: ClusteringOptions
) -> ClusteringGroup:
    return group_of(storage, slices, total, max(1, -(-total // options.target_file_bytes)))


def group_of(storage: Storage, slices: Sequence[FileSlice], total: int, outputs: int) -> ClusteringGroup:
    """The group of the slices, whose base files have `total` bytes, with Hudi's metrics."""
    log_bytes = sum(file_slice.log_length for file_slice in slices)
    read_megabytes = (total + log_bytes) // _MEGABYTE
    metrics = {
        "TOTAL_LOG_FILES": float(sum(len(file_slice.log_files) for file_slice in slices)),
        "TOTAL_LOG_FILES_SIZE": float(log_bytes),
        "TOTAL_IO_READ_MB": float(read_megabytes),
        "TOTAL_IO_WRITE_MB": float(total // _MEGABYTE),
        "TOTAL_IO_MB": float(read_megabytes + total // _MEGABYTE),
    }
    return ClusteringGroup(tuple(_slice(storage, file_slice) for file_slice in slices), outputs, metrics)


def _slice(storage: Storage, file_slice: FileSlice) -> ClusteringSlice:
    base, external = file_slice.base_file, file_slice.external_file
    return ClusteringSlice(
        file_slice.partition_path,
        file_slice.file_id,
        storage.hadoop_uri(base.path) if base is not None else None,
        tuple(storage.hadoop_uri(log_file.path) for log_file in file_slice.log_files),
        storage.hadoop_uri(external.path) if external is not None else None,
    )


def _extra_metadata(group: ClusteringGroup) -> dict[str, str] | None:
    if not group.nodes:
        return None
    return {
        _PARTITION: group.partition_path,
        _CHILD_NODES: nodes_to_json(group.nodes),
        _SEQUENCE_NUMBER: str(group.ring_number),
    }


def _group_record(group: ClusteringGroup) -> dict[str, Any]:
    return {
        "slices": [
            {
                "dataFilePath": file_slice.base_file or "",
                "deltaFilePaths": list(file_slice.log_files),
                "fileId": file_slice.file_id,
                "partitionPath": file_slice.partition_path,
                "bootstrapFilePath": file_slice.bootstrap_file or "",
                "version": _VERSION,
            }
            for file_slice in group.slices
        ],
        "metrics": group.metrics,
        "numOutputFileGroups": group.output_files,
        "extraMetadata": _extra_metadata(group),
        "version": _VERSION,
    }
