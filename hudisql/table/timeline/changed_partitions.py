"""The partitions that commits changed, by their metadata: written to, or with replaced file groups."""

from __future__ import annotations

from collections.abc import Sequence

from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import Instant
from hudisql.table.meta_client import TableMetaClient
from hudisql.table.timeline.instant_files import read_commits


def partitions_of_commits(table: TableMetaClient, commits: Sequence[Instant]) -> frozenset[str]:
    """The paths of the partitions. Raises TimelineChangedError, CorruptTableError, StorageError."""
    return frozenset[str]().union(*map(partitions_of_commit, read_commits(table, commits)))


def partitions_of_commit(metadata: CommitMetadata) -> frozenset[str]:
    """The paths of the partitions that the commit with this metadata changed."""
    return frozenset((*metadata.partition_to_write_stats, *(metadata.partition_to_replace_file_ids or ())))
