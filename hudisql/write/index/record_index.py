"""The index of a table, as a plain value: how stored rows are found by record key.

Follows `HoodieIndex` and `HoodieIndexConfig` of Hudi 0.15: the same names, the same meaning. Which rows are
found is the same for all kinds that look into one partition; they differ in what they have to read. Knows
neither settings nor files.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class IndexKind(StrEnum):
    """Hudi's `hoodie.index.type`, as far as hudisql knows it."""

    BLOOM = "BLOOM"
    """Files are ruled out by the key range and the bloom filter of their footers, the others are read."""
    SIMPLE = "SIMPLE"
    """The record keys of all files of the partitions concerned are read and joined."""
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    BUCKET = "BUCKET"
    """A hash of the key says which file group of its partition a row belongs to."""


@dataclass(frozen=True, slots=True)
class HashBuckets:
    """Hudi's simple bucket index: `count` file groups in each partition, chosen by a hash of `fields`.

    The fields are record key columns.
    """

    count: int
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """The index that a write uses.

    `moves_rows` counts for global kinds: a row whose incoming form names another partition moves there, else
    it is changed where it lies. `buckets` belongs to BUCKET.
    """

    kind: IndexKind = IndexKind.BLOOM
    moves_rows: bool = True
    buckets: HashBuckets | None = None

    @property
    def is_global(self) -> bool:
        """True if a key is looked for in all partitions."""
        return self.kind in (IndexKind.GLOBAL_BLOOM, IndexKind.GLOBAL_SIMPLE)

    @property
    def prunes_by_footer(self) -> bool:
        """True if files are first ruled out by their footers."""
        return self.kind in (IndexKind.BLOOM, IndexKind.GLOBAL_BLOOM)
