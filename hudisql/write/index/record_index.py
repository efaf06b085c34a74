"""The index of a table as a plain value: the way to find stored rows by record key.

Follows `HoodieIndex` and `HoodieIndexConfig` of Hudi 0.15: the same names, the same meaning. All kinds that
search one partition find the same rows; they differ in what they read. Knows neither settings nor files.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hudisql.format.keys.bucket_rules import BucketRules


class IndexKind(StrEnum):
    """The values of Hudi's `hoodie.index.type` that hudisql supports."""

    BLOOM = "BLOOM"
    """The key range and bloom filter in the footers exclude files; the other files are read."""
    SIMPLE = "SIMPLE"
    """The record keys of all files of the partitions concerned are read and joined."""
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    RECORD_INDEX = "RECORD_INDEX"
    """The record index of the table's metadata table tells the file group of a key."""
    RECORD_LEVEL_INDEX = "RECORD_LEVEL_INDEX"
    """A partitioned record index tells it, in the partition of the row."""
    BUCKET = "BUCKET"
    """A hash of the key determines a row's file group in its partition."""


@dataclass(frozen=True, slots=True)
class HashBuckets:
    """Hudi's bucket index: `count` file groups in each partition, chosen by a hash of `fields`.

    The fields are record key columns. With a consistent hashing index `count` is for new partitions: each has
    a ring of buckets, which clustering splits and merges. `rules` give some partitions other numbers.
    """

    count: int
    fields: tuple[str, ...]
    is_consistent: bool = False
    rules: BucketRules | None = None

    @property
    def differ_by_partition(self) -> bool:
        """True if the bucket of a key depends on the partition of its row."""
        return self.is_consistent or self.rules is not None

    def count_of(self, path: str) -> int:
        """The number of buckets of the partition at this path; not for consistent hashing indexes."""
        return self.count if self.rules is None else self.rules.count(path)


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """The index that a write uses.

    `moves_rows` is for global kinds: a row moves to the partition of its incoming row; otherwise it is
    changed in place. `buckets` is for BUCKET.
    """

    kind: IndexKind = IndexKind.BLOOM
    moves_rows: bool = True
    buckets: HashBuckets | None = None

    @property
    def is_global(self) -> bool:
        """True if a key is looked up in all partitions."""
        return self.kind in (IndexKind.GLOBAL_BLOOM, IndexKind.GLOBAL_SIMPLE, IndexKind.RECORD_INDEX)

    @property
    def has_rings(self) -> bool:
        """True for a consistent hashing index."""
        return self.buckets is not None and self.buckets.is_consistent

    @property
    def prunes_by_footer(self) -> bool:
        """True if footers exclude files first."""
        return self.kind in (IndexKind.BLOOM, IndexKind.GLOBAL_BLOOM)
