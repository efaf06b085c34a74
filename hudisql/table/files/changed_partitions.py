"""The partitions that commits changed, by their metadata: written to, or with replaced file groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import Instant
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.instant_files import read_commits

COMMIT_PARTITIONS: Final = "partitions of commits"
"""The name in a table's `listing` of the `CommitPartitions` by completed instant."""


@dataclass(frozen=True, slots=True)
class CommitPartitions:
    """The paths of the partitions that a commit wrote to, and of those of which it replaced file groups."""

    written: frozenset[str]
    replaced: frozenset[str]

    @property
    def changed(self) -> frozenset[str]:
        """The paths of all partitions that the commit changed."""
        return self.written | self.replaced


def partitions_of_commits(table: HudiTable, commits: Sequence[Instant]) -> Iterator[CommitPartitions]:
    """The partitions of each completed commit; those that the table's `listing` lacks are read.

    Raises TimelineChangedError, CorruptTableError, StorageError.
    """
    known = table.list_once(COMMIT_PARTITIONS, dict[Instant, CommitPartitions])
    metadata = read_commits(table, [commit for commit in commits if commit not in known])
    for commit in commits:
        yield known[commit] if commit in known else partitions_of_commit(next(metadata))


def partitions_of_commit(metadata: CommitMetadata) -> CommitPartitions:
    """The partitions of the commit with this metadata."""
    return CommitPartitions(
        frozenset(metadata.partition_to_write_stats), frozenset(metadata.partition_to_replace_file_ids or ())
    )
