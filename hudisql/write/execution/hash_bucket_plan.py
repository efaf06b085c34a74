"""The plan of a commit to a table with a bucket index: existing file groups, and the ids of new ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hudisql.format.keys.bucket_id import new_file_id_prefix
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.write.execution.partitioner import BucketPlan, assign_hash_buckets
from hudisql.write.index.bucket_index import groups_of_buckets
from hudisql.write.index.hash_rings import check_rings_writable, hash_rings
from hudisql.write.index.record_index import HashBuckets
from hudisql.write.transaction.pending_table_services import check_not_clustered


def plan_hash_buckets(
    table: HudiTable,
    slices: Sequence[FileSlice],
    changed: Mapping[tuple[str, str], int],
    new_rows: Mapping[tuple[str, int], int],
    buckets: HashBuckets,
) -> BucketPlan:
    """Assign buckets, as `assign_hash_buckets`; `slices` are the writable ones of the affected partitions.

    Raises UnsupportedTableError for a table that has no such index, and for new rows of buckets that a
    pending clustering resizes or that an overwrite has replaced.
    """
    groups = groups_of_buckets(table, slices, buckets)
    if not buckets.is_consistent:
        return assign_hash_buckets(
            slices, changed, new_rows, groups, lambda _, bucket: new_file_id_prefix(bucket)
        )
    rings = hash_rings(table, buckets)
    targets = {(path, rings.of(path).file_id(bucket)) for path, bucket in new_rows}
    check_not_clustered(table, targets)
    check_rings_writable(table, targets)
    return assign_hash_buckets(
        slices, changed, new_rows, groups, lambda path, bucket: rings.of(path).file_id_prefixes[bucket]
    )
