"""Plans of clusterings that split and merge the buckets of a consistent hashing index.

Follows `BaseConsistentHashingBucketClusteringPlanStrategy` of Hudi 0.15: a bucket is halved, and neighbours
in the ring become one bucket. Other buckets stay as they are.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from hudisql.format.keys.hash_ring import HashRing, RingNode
from hudisql.services.clustering.clustering_plan import (
    ClusteringGroup,
    ClusteringPlan,
    RingLimits,
    group_of,
)
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.write.index.hash_rings import HashRings


def plan_resizing(
    storage: Storage,
    slices: Sequence[FileSlice],
    excluded: Collection[tuple[str, str]],
    rings: HashRings,
    limits: RingLimits,
) -> ClusteringPlan:
    """The buckets to split and to merge, partition by partition.

    Partitions with file groups of `excluded`, as (partition path, file id), are left out. Raises
    UnsupportedTableError, CorruptTableError, StorageError.
    """
    groups: list[ClusteringGroup] = []
    paths = {file_slice.partition_path for file_slice in slices}
    for path in sorted(paths - {path for path, _ in excluded}):
        ring = rings.of(path)
        of_bucket = {
            bucket: file_slice
            for file_slice in slices
            if file_slice.partition_path == path
            and (bucket := ring.bucket_of_file_id(file_slice.file_id)) is not None
        }
        groups += _groups_of_ring(storage, ring, of_bucket, limits)
    return ClusteringPlan(tuple(groups))


def _groups_of_ring(
    storage: Storage, ring: HashRing, slices: dict[int, FileSlice], limits: RingLimits
) -> Iterator[ClusteringGroup]:
    room = limits.max_buckets - len(ring.values)
    split: set[int] = set()
    for bucket, file_slice in sorted(slices.items()):
        middle = ring.middle(bucket)
        if len(split) < room and middle is not None and file_slice.length > limits.split_bytes:
            split.add(bucket)
            nodes = (RingNode(middle, _new_prefix()), RingNode(ring.values[bucket], _new_prefix()))
            yield _group(storage, ring, [file_slice], nodes)
    most_removed = len(ring.values) + len(split) - limits.min_buckets
    for run in _runs(slices, split, most_removed, limits.merge_bytes):
        gone = [RingNode(ring.values[bucket], None) for bucket in run[:-1]]
        last = RingNode(ring.values[run[-1]], _new_prefix())
        yield _group(storage, ring, [slices[bucket] for bucket in run], (*gone, last))


def _runs(
    slices: dict[int, FileSlice], split: Collection[int], most_removed: int, merge_bytes: int
) -> Iterator[list[int]]:
    """Neighbouring buckets to merge, at most `most_removed` buckets less."""
    run: list[int] = []
    total = 0
    for bucket in [*sorted(slices), -1]:
        size = slices[bucket].length if bucket >= 0 else merge_bytes
        fits = bucket >= 0 and bucket not in split and size <= merge_bytes
        if (
            run
            and fits
            and bucket == run[-1] + 1
            and total + size <= merge_bytes
            and len(run) <= most_removed
        ):
            run.append(bucket)
            total += size
            continue
        if len(run) > 1:
            yield run
            most_removed -= len(run) - 1
        run, total = ([bucket], size) if fits else ([], 0)


def _group(
    storage: Storage, ring: HashRing, slices: Sequence[FileSlice], nodes: tuple[RingNode, ...]
) -> ClusteringGroup:
    total = sum(file_slice.base_file.length for file_slice in slices if file_slice.base_file is not None)
    outputs = sum(node.file_id_prefix is not None for node in nodes)
    return replace(group_of(storage, slices, total, outputs), nodes=nodes, ring_number=ring.number)


def _new_prefix() -> str:
    return str(uuid.uuid4())
